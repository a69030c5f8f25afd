"""A certificate authority of the lab's own, by which scheduler, workers and clients know each other."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from metalbench.harness.errors import UsageError

ROLES = ("scheduler", "worker", "client")
AUTHORITY = "ca"
VALID = datetime.timedelta(days=825)  #: the longest that macOS trusts a certificate


def make(folder: Path) -> list[Path]:
    """``ca.pem``, and for each role a certificate and a key that only the owner may read. The authority's own key is not kept.

    UsageError where the folder holds some already: replacing them would lock out the machines that have the old ones.
    """
    if any((folder / f"{name}.pem").exists() for name in (AUTHORITY, *ROLES)):
        raise UsageError(f"{folder} holds certificates already; give another folder, or remove them on every machine first.")
    folder.mkdir(parents=True, exist_ok=True)
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("metalbench fleet")
    root = _certificate(issuer, issuer, authority.public_key(), authority, authority=True)
    made = [_write(folder / f"{AUTHORITY}.pem", root.public_bytes(serialization.Encoding.PEM), 0o644)]
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        own = _certificate(_name(f"metalbench {role}"), issuer, key.public_key(), authority, authority=False)
        made.append(_write(folder / f"{role}.pem", own.public_bytes(serialization.Encoding.PEM), 0o644))
        secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        made.append(_write(folder / f"{role}-key.pem", secret, 0o600))
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of a lab's machines differ
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return made.sign(signer, hashes.SHA256())


def _write(file: Path, content: bytes, mode: int) -> Path:
    file.touch(mode=mode, exist_ok=False)  # with its mode from the first byte on
    file.write_bytes(content)
    return file
