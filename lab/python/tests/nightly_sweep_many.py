"""Ten thousand tasks on a cluster. A nightly test, because it takes minutes (cargo xtask nightly --only cluster)."""

import distributed
import freehold
from sweeping import tree

SEEDS, CPUS, POLICIES = 1000, 5, 2


def test_sweep_of_ten_thousand_tasks_completes(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "title = 'x'\nkind = 'sim'\nplan = 'pingpong'\nset = ['duration_ms=1']\nb = ['freehold']\n"
        f"[axes]\ncpus = {list(range(2, 2 + 2 * CPUS, 2))}\nseed = {SEEDS}\n"
    )
    local = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with local as cluster, distributed.Client(cluster) as client:
        report = freehold.sweep(plan, into=tmp_path / "cluster", client=client, progress=False)
        assert report.dict["tasks"] >= SEEDS * CPUS * POLICIES and report.failures == []
        # A second sweep has nothing to do and gives the same report.
        assert freehold.sweep(plan, into=tmp_path / "cluster", client=client, progress=False).json() == report.json()
    assert freehold.sweep(plan, into=tmp_path / "here", progress=False).json() == report.json()
    assert tree(tmp_path / "here") == tree(tmp_path / "cluster")
