"""Who may listen and speak where: TLS in which both sides show a certificate, or this machine alone."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Security

from metalbench.harness.errors import UsageError
from metalbench.harness.fleet.certificates import AUTHORITY, ROLES

PORT = 8786


def security(tls: Path | None, role: str) -> Security:
    """What Dask needs to take part as ``role``, from the folder that ``bench fleet certificates`` made; nothing without one.

    UsageError where the role's files are not in it.
    """
    if tls is None:
        return Security(require_encryption=False)
    files = [tls / f"{AUTHORITY}.pem", tls / f"{role}.pem", tls / f"{role}-key.pem"]
    for file in files:
        if not file.is_file():
            raise UsageError(f"There is no {file}; `bench fleet certificates DIR` makes what {' , '.join(ROLES)} need.")
    authority, certificate, key = map(str, files)
    names = {f"tls_{role}_cert": certificate, f"tls_{role}_key": key}
    if role == "worker":  # which is its scheduler's client while it asks whether it may join
        names |= {"tls_client_cert": certificate, "tls_client_key": key}
    return Security(require_encryption=True, tls_ca_file=authority, **names)


def address(text: str, tls: Path | None) -> str:
    """``HOST[:PORT]``, with or without a scheme, as Dask wants it. UsageError for what is none, or says otherwise than ``--tls``."""
    scheme = "tcp" if tls is None else "tls"
    parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
    try:
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in {"tcp", "tls"} or parts.path.strip("/"):
        raise UsageError(f"{text!r} is not the address of a scheduler, such as tcp://192.168.1.10:{PORT}.")
    if parts.scheme == "tls" and tls is None:
        raise UsageError(f"{text} wants certificates: give the folder that `bench fleet certificates` made by --tls DIR.")
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def refuse_strangers(place: str, tls: Path | None, *, insecure: bool) -> None:
    """UsageError where whoever reaches ``place``, a host or an address, could have this machine run what they like."""
    host = (urlsplit(place).hostname or place) if "://" in place else place
    if tls is None and not insecure and not is_local(host):
        raise UsageError(
            f"Without certificates, whoever reaches {host} can run programs here: give --tls DIR (`bench fleet certificates` makes it), "
            "or --insecure in a network that you trust."
        )


def is_local(host: str) -> bool:
    """Whether only this machine reaches the host. A name but ``localhost`` may stand for anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
