"""Schedulers that other machines can reach: accepted if encrypted, else refused without `insecure=True`."""

import shutil
import subprocess

import freehold
import pytest
from sweeping import SIMULATED, parts

distributed = pytest.importorskip("distributed")
pytest.importorskip("fsspec")

from distributed.security import Security  # noqa: E402
from freehold._cluster import is_private  # noqa: E402


@pytest.fixture
def security(tmp_path):
    return certificates(tmp_path / "own")


def certificates(folder):
    """Creates a certificate authority and a certificate signed by it, with the commands of docs/cluster.md."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here")
    folder.mkdir()

    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)

    openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem")
    openssl("req -newkey rsa:2048 -nodes -subj /CN=sweep -keyout key.pem -out request.pem")
    openssl("x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -out cert.pem")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    roles = {f"tls_{role}_cert": cert for role in ("scheduler", "worker", "client")}
    roles |= {f"tls_{role}_key": key for role in ("scheduler", "worker", "client")}
    return Security(tls_ca_file=str(folder / "ca.pem"), require_encryption=True, **roles)


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(SIMULATED)
    return path


def reachable_cluster(**more):
    """Returns a cluster whose scheduler listens on all addresses of this machine."""
    return distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, host="0.0.0.0", dashboard_address="127.0.0.1:0", **more
    )


def test_tls_cluster_runs_a_sweep(security, plan, tmp_path):
    with reachable_cluster(protocol="tls://", security=security) as cluster:
        with distributed.Client(cluster, security=security) as client:
            assert client.scheduler.address.startswith("tls://")
            report = freehold.sweep(plan, into=tmp_path / "into", client=client, progress=False)
        stranger = certificates(tmp_path / "stranger")
        with pytest.raises(OSError):
            distributed.Client(cluster.scheduler_address, security=stranger, timeout="2s")
    assert report.failures == [] and parts(tmp_path / "into")


def test_remote_plain_tcp_is_refused_unless_insecure(plan, tmp_path):
    with reachable_cluster() as cluster, distributed.Client(cluster) as client:
        if is_private(client.scheduler_info()["address"]):
            pytest.skip("this machine has no address but its own")
        with pytest.raises(freehold.InputError, match="reached without encryption.*insecure=True"):
            freehold.sweep(plan, into=tmp_path / "refused", client=client, progress=False)
        assert not (tmp_path / "refused").exists()
        # The loopback address leads to the same scheduler, which other machines can reach too.
        port = client.scheduler.address.rpartition(":")[2]
        with distributed.Client(f"tcp://127.0.0.1:{port}", set_as_default=False) as near:
            with pytest.raises(freehold.InputError, match="reached without encryption"):
                freehold.sweep(plan, into=tmp_path / "refused", client=near, progress=False)
        report = freehold.sweep(plan, into=tmp_path / "into", client=client, insecure=True, progress=False)
    assert report.failures == [] and parts(tmp_path / "into")


LOOPBACK_NAME = "localhost"


@pytest.mark.parametrize(
    "address, expected",
    [
        ("tls://10.0.0.1:8786", True),
        ("wss://10.0.0.1:8786", True),
        ("inproc://10.0.0.1/17/1", True),
        ("tcp://127.0.0.1:8786", True),
        ("tcp://127.8.8.8:8786", True),
        ("tcp://[::1]:8786", True),
        (f"tcp://{LOOPBACK_NAME}:8786", True),
        ("tcp://10.0.0.1:8786", False),
        ("tcp://0.0.0.0:8786", False),
        ("tcp://[2001:db8::1]:8786", False),
        ("ws://10.0.0.1:8786", False),
        ("ucx://10.0.0.1:8786", False),
        ("10.0.0.1:8786", False),
        ("tcp://host.invalid:8786", False),
    ],
)
def test_private_addresses_are_encrypted_or_loopback(address, expected):
    assert is_private(address) == expected
