//! TLS between relay and origin: what a relay trusts, and how an origin proves itself (THREATS 82).
//!
//! TLS 1.3 and nothing older, by rustls. The relay names whom it trusts, a file of certificates: its studio's own authority,
//! or the origin's certificate itself; the hosts' own lists are not asked. Who the relay is, its token says, inside.
//!
//! Invariant: with trust there is no plain connection, not even where the origin knows no TLS.

use std::fmt;
use std::io;
use std::net::TcpStream as StdStream;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::small_file::{self, Pipes};

/// What certificates and keys are in.
pub(super) const KIND: &str = "a PEM file";

/// Whom a relay believes to be its origin.
#[derive(Clone)]
pub struct UpstreamTrust {
    pem: Arc<[u8]>,
    config: Arc<ClientConfig>,
}

/// Equal when they trust the same certificates.
impl PartialEq for UpstreamTrust {
    fn eq(&self, other: &UpstreamTrust) -> bool {
        self.pem == other.pem
    }
}

impl Eq for UpstreamTrust {}

impl fmt::Debug for UpstreamTrust {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "UpstreamTrust({} bytes of PEM)", self.pem.len())
    }
}

impl UpstreamTrust {
    /// Reads certificates (PEM) of authorities, one of which must have signed an origin's; or the origin's own, where it is not an
    /// authority's.
    ///
    /// # Errors
    /// What is wrong with the file, in words.
    pub fn load(file: &Path) -> Result<UpstreamTrust, String> {
        UpstreamTrust::parse(&small_file::read(file, KIND, Pipes::Awaited)?)
    }

    /// The same of what the file holds.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(pem: &[u8]) -> Result<UpstreamTrust, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots
                .add(certificate)
                .map_err(|error| format!("a certificate cannot be used: {error}"))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(UpstreamTrust {
            pem: pem.into(),
            config: Arc::new(config),
        })
    }

    /// Shakes hands with the origin that `name`, as `host:port`, leads to.
    ///
    /// # Errors
    /// When what answers is not whom the certificates vouch for under that name.
    pub async fn connect(&self, name: &str, socket: TcpStream) -> io::Result<Line> {
        let host = server_name(name)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(host, socket).await?;
        Ok(Line::Sealed(Box::new(stream.into())))
    }

    /// The same over a socket that blocks; hands are shaken with the first read or write.
    ///
    /// # Errors
    /// When the name is no name of a host.
    pub fn over(
        &self,
        name: &str,
        socket: StdStream,
    ) -> io::Result<StreamOwned<ClientConnection, StdStream>> {
        let connection =
            ClientConnection::new(Arc::clone(&self.config), server_name(name)?).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, socket))
    }
}

/// Whether the first bytes of an answer to a plain greeting are those of an end that speaks TLS: an alert, major version 3.
#[must_use]
pub fn is_tls_alert(first: &[u8]) -> bool {
    matches!(first, [0x15, 0x03, ..])
}

/// How an origin proves itself to its relays.
#[derive(Clone)]
pub struct OriginIdentity {
    config: Arc<ServerConfig>,
}

impl PartialEq for OriginIdentity {
    fn eq(&self, other: &OriginIdentity) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl fmt::Debug for OriginIdentity {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("OriginIdentity")
    }
}

impl OriginIdentity {
    /// Reads a chain of certificates, the origin's first, and the key of the first (both PEM).
    ///
    /// # Errors
    /// What is wrong with a file, in words; nothing of the key is in them.
    pub fn load(certificate: &Path, key: &Path) -> Result<OriginIdentity, String> {
        let named = |file: &Path, fault: String| format!("{}: {fault}", file.display());
        let chain = small_file::read(certificate, KIND, Pipes::Awaited)
            .and_then(|pem| certificates(&pem))
            .map_err(|fault| named(certificate, fault))?;
        let private = small_file::read(key, KIND, Pipes::Awaited)
            .and_then(|pem| {
                PrivateKeyDer::from_pem_slice(&pem)
                    .map_err(|_| "there is no private key (PEM) in it".to_owned())
            })
            .map_err(|fault| named(key, fault))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| named(certificate, format!("it does not go with the key: {error}")))?;
        Ok(OriginIdentity {
            config: Arc::new(config),
        })
    }

    /// Shakes hands with whoever connected.
    ///
    /// # Errors
    /// When it speaks no TLS 1.3, or does not believe.
    pub async fn accept(&self, socket: TcpStream) -> io::Result<Line> {
        let stream = TlsAcceptor::from(Arc::clone(&self.config)).accept(socket).await?;
        Ok(Line::Sealed(Box::new(stream.into())))
    }
}

/// A connection between relay and origin.
pub enum Line {
    /// Anybody on the way can read it and change it.
    Plain(TcpStream),
    /// TLS.
    Sealed(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Line::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Line::Sealed(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Line::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Line::Sealed(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Line::Plain(stream) => Pin::new(stream).poll_flush(context),
            Line::Sealed(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Line::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Line::Sealed(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}

/// What an origin that is not believed must do.
#[must_use]
pub fn way_out(error: &io::Error) -> &'static str {
    if error.to_string().contains("CaUsedAsEndEntity") {
        return "the certificate it shows as its own is an authority's (CA:TRUE): give it one that the authority signed, or one made with basicConstraints=CA:FALSE";
    }
    "it must speak TLS 1.3 and show a certificate for that name that upstream_ca_file vouches for"
}

/// The host of a `host:port`, an address in brackets or not.
fn server_name(name: &str) -> io::Result<ServerName<'static>> {
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(io::Error::other)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("there is no certificate (PEM) in it".to_owned()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Files of an authority and of a certificate it signed for loopback, in a directory that goes with the value.
    pub struct Papers {
        directory: std::path::PathBuf,
    }

    impl Drop for Papers {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    impl Papers {
        pub fn new(name: &str) -> Papers {
            use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
            let directory = std::env::temp_dir().join(format!("ackline-tls-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&directory).expect("a directory");
            let mut authority = CertificateParams::new(Vec::new()).expect("an authority");
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority_key = KeyPair::generate().expect("a key");
            let root = authority.self_signed(&authority_key).expect("a root");
            let issuer = Issuer::new(authority, authority_key);
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let key = KeyPair::generate().expect("a key");
            let own = CertificateParams::new(names)
                .and_then(|params| params.signed_by(&key, &issuer))
                .expect("a certificate");
            let papers = Papers { directory };
            for (file, text) in [
                ("ca.pem", root.pem()),
                ("own.pem", own.pem()),
                ("own.key", key.serialize_pem()),
            ] {
                std::fs::write(papers.file(file), text).expect("a file");
            }
            papers
        }

        pub fn file(&self, name: &str) -> std::path::PathBuf {
            self.directory.join(name)
        }

        pub fn trust(&self) -> UpstreamTrust {
            UpstreamTrust::load(&self.file("ca.pem")).expect("trust")
        }

        pub fn identity(&self) -> OriginIdentity {
            OriginIdentity::load(&self.file("own.pem"), &self.file("own.key")).expect("an identity")
        }
    }

    #[test]
    fn files_that_are_no_papers_are_refused_in_words() {
        let papers = Papers::new("words");
        let fault = |file: &str| UpstreamTrust::load(&papers.file(file)).unwrap_err();
        assert!(fault("nothing.pem").starts_with("it cannot be read: "));
        assert_eq!(fault("own.key"), "there is no certificate (PEM) in it");
        let identity = |certificate: &str, key: &str| {
            OriginIdentity::load(&papers.file(certificate), &papers.file(key)).unwrap_err()
        };
        assert!(identity("own.pem", "ca.pem").ends_with("ca.pem: there is no private key (PEM) in it"));
        assert!(identity("ca.pem", "own.key").contains("it does not go with the key: "));
    }

    /// What a client that trusts `shown` itself says to an origin that shows it.
    fn believed(directory: &Papers, is_authority: bool) -> Result<(), String> {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().expect("a key");
        let shown = params.self_signed(&key).expect("a certificate");
        let (certificate, private) = (directory.file("self.pem"), directory.file("self.key"));
        std::fs::write(&certificate, shown.pem()).expect("a file");
        std::fs::write(&private, key.serialize_pem()).expect("a file");
        let identity = OriginIdentity::load(&certificate, &private).expect("an identity");
        let trust = UpstreamTrust::load(&certificate).expect("trust");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a port");
            let addr = listener.local_addr().expect("an address");
            let accepts = async {
                let (socket, _) = listener.accept().await.expect("a visitor");
                let _ = identity.accept(socket).await;
            };
            let connects = async {
                let socket = TcpStream::connect(addr).await.expect("a way");
                trust.connect("localhost:1", socket).await.map(|_| ())
            };
            let (believed, ()) = tokio::join!(connects, accepts);
            believed.map_err(|error| way_out(&error).to_owned())
        })
    }

    /// An origin's own certificate may stand in the file where it is no authority's; where it is, the way out is said.
    #[test]
    fn an_authority_is_no_origin_and_that_is_said() {
        let papers = Papers::new("self");
        assert_eq!(believed(&papers, false), Ok(()));
        let fault = believed(&papers, true).unwrap_err();
        assert!(fault.contains("basicConstraints=CA:FALSE"), "{fault}");
    }

    #[test]
    fn a_host_is_what_stands_before_the_port() {
        for (name, host) in [
            ("origin.example:7700", "origin.example"),
            ("10.0.0.1:7700", "10.0.0.1"),
            ("[2001:db8::1]:7700", "2001:db8::1"),
        ] {
            assert_eq!(server_name(name).unwrap().to_str(), host);
        }
        assert!(server_name("no host:1").is_err());
    }
}
