"""TLS between a socket and a conversation, and a certificate authority for tests.

TLS is a conversation around a conversation. It decrypts what arrives and passes it in, and encrypts what comes out.
Both happen in memory, so transport and loop need not know about it and nothing blocks. `ssl` is imported with this
module, and this module only if a broker uses TLS. The authority also needs trustme (the extra `tls`).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from leveret.server.transport import Conversation

if TYPE_CHECKING:
    import trustme

READ_BYTES = 65536
# The types in a distinguished name: by the names that `getpeercert` has for them, those of RabbitMQ.
_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "postalCode": "2.5.4.17",
    "pseudonym": "PSEUDONYM",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "2.5.4.9",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}


class TlsEndpoint(NamedTuple):
    """Where clients connect with TLS, and what they must trust."""

    port: int
    url: str
    # None if the test gave its own SSLContext.
    certificates: Authority | None


class Secured(Conversation, Protocol):
    """What TLS needs of the conversation inside."""

    @property
    def client_name(self) -> str:
        """The client's name for its connection."""

    def secured_by(self, names: Mapping[str, str]) -> None:
        """Note that the handshake is over, and the names in the client's certificate, by `ssl_cert_login_from`."""
        ...

    def note_stranger(self, first: bytes, *, is_on_tls_port: bool) -> None:
        """Note the first bytes of a peer that does not speak TLS."""
        ...


class TlsConversation:
    """One conversation inside TLS."""

    __slots__ = (
        "__weakref__",
        "_dirty",
        "_incoming",
        "_is_dirty",
        "_is_established",
        "_is_over",
        "_outgoing",
        "_tls",
        "inner",
    )

    inner: Secured

    def __init__(self, context: ssl.SSLContext, dirty: list[object]) -> None:
        """Create a conversation without an inside, which adds itself to `dirty` whenever it has something to send.

        Set `inner` before anything arrives. To `inner`, this object is the list to which it adds itself.
        """
        self._dirty = dirty
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_established = False
        # Whether the peer has closed TLS, or the handshake has failed.
        self._is_over = False
        self._is_dirty = False

    def append(self, _inner: object, /) -> None:
        """Note that the conversation inside has something to send."""
        if not self._is_dirty:
            self._is_dirty = True
            self._dirty.append(self)

    @property
    def client_name(self) -> str:
        """The client's name for its connection."""
        return self.inner.client_name

    @property
    def is_closed(self) -> bool:
        """Whether to close the socket after the last byte."""
        return self._is_over or self.inner.is_closed

    @property
    def is_reset(self) -> bool:
        """Whether to reset the socket."""
        return self.inner.is_reset

    @property
    def is_half_closed(self) -> bool:
        """Whether to end this side of the socket, without closing TLS."""
        return self.inner.is_half_closed

    @property
    def is_reading_paused(self) -> bool:
        """Whether to stop reading for now."""
        return self.inner.is_reading_paused

    def receive_data(self, data: bytes) -> None:
        """Decrypt bytes that arrived, and pass them in."""
        self._incoming.write(data)
        try:
            if not self._is_established:
                self._do_handshake()
            while not self._is_over:
                clear = self._tls.read(READ_BYTES)
                if not clear:
                    self._is_over = True
                    break
                self.inner.receive_data(clear)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            # The peer has closed TLS, or made a mistake. The alert that answers a mistake is sent before the socket
            # closes.
            self._is_over = True
            if not self._is_established:
                self.inner.note_stranger(data, is_on_tls_port=True)
        if self._outgoing.pending or self._is_over:
            self.append(self)

    def _do_handshake(self) -> None:
        self._tls.do_handshake()
        self._is_established = True
        self.inner.secured_by(names_of(self._tls.getpeercert()))

    def data_to_send(self) -> list[bytes]:
        """Return what is to be sent, encrypted."""
        self._is_dirty = False
        chunks = self.inner.data_to_send()
        with suppress(ssl.SSLError):
            if chunks and self._is_established:
                self._tls.write(b"".join(chunks))
            if self.is_closed or self.is_reset:
                # Close TLS without waiting for the peer to do so.
                self._tls.unwrap()
        return [self._outgoing.read()] if self._outgoing.pending else []

    def connection_lost(self) -> None:
        """Handle the end of the socket."""
        self.inner.connection_lost()


def names_of(certificate: Any) -> dict[str, str]:
    """Return the names in a certificate, as `getpeercert` describes it, by RabbitMQ's words; empty without one."""
    subject = (certificate or {}).get("subject", ())
    common = [value for part in subject for key, value in part if key == "commonName"]
    parts = ["+".join(f"{_SHORT.get(key, key)}={_escaped(value)}" for key, value in part) for part in subject]
    return {"distinguished_name": ",".join(reversed(parts)), "common_name": ",".join(common)}


def _escaped(value: str) -> str:
    """Return a part of a distinguished name as RabbitMQ writes it (rabbit_cert_info, escape_rdn_value/1)."""
    octets, last = value.encode(), len(value.encode()) - 1
    return "".join(
        f"\\{octet:02X}"
        if not 32 <= octet < 126
        else f"\\{octet:c}"
        if octet in b'"+,;<>\\' or (octet in b" #" and at == 0) or (octet == 32 and at == last)
        else chr(octet)
        for at, octet in enumerate(octets)
    )


def server_context(
    certificate: str | Path,
    key: str | Path | None = None,
    client_ca: str | Path | None = None,
    *,
    verify: ssl.VerifyMode = ssl.CERT_REQUIRED,
) -> ssl.SSLContext:
    """Return the server's context from PEM files.

    With `client_ca`, clients must show a certificate that it signed, or may if `verify` is CERT_OPTIONAL.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = verify
    return context


class CertificateFiles(NamedTuple):
    """PEM files for a client that needs paths. Certificate and key are None for a client without a certificate."""

    ca: Path
    certificate: Path | None
    key: Path | None


class Authority:
    """A certificate authority that lives as long as a test, for the broker and for its clients."""

    def __init__(self, host: str) -> None:
        """Create an authority that signs for a broker on that host. Raises RuntimeError without trustme."""
        try:
            import trustme
        except ImportError:
            raise RuntimeError("tls=True needs trustme to make certificates; install leveret[tls]") from None
        self._ca = trustme.CA()
        self._host = host

    @property
    def ca_pem(self) -> bytes:
        """The certificate that a client must trust."""
        return self._ca.cert_pem.bytes()

    def server_context(self) -> ssl.SSLContext:
        """Return the broker's context. A client may show a certificate of this authority, but need not."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(self._host, "localhost").configure_cert(context)
        self._ca.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def client_context(self, user: str | None = None) -> ssl.SSLContext:
        """Return a client's context that trusts the broker; with `user`, one with a certificate in that name."""
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        if user is not None:
            self._certificate_of(user).configure_cert(context)
        return context

    def write(self, folder: str | Path, user: str | None = None) -> CertificateFiles:
        """Write what a client needs into PEM files in a folder."""
        directory = Path(folder)
        ca = directory / "ca.pem"
        ca.write_bytes(self.ca_pem)
        if user is None:
            return CertificateFiles(ca, None, None)
        issued = self._certificate_of(user)
        certificate, key = directory / f"{user}.pem", directory / f"{user}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        return CertificateFiles(ca, certificate, key)

    def _certificate_of(self, user: str) -> trustme.LeafCert:
        # Some libraries refuse a certificate without a host name.
        return self._ca.issue_cert("localhost", common_name=user)
