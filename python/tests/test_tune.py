"""Tests of `tileworks.tune`."""
import functools
import json

import kernels
import numpy as np
import pytest

import tileworks

#: The configurations: numbers of rows of a tile.
SPACE = [32, 64, 128]


def arrays():
    """Returns the input and the output of `kernels.copy`."""
    return [np.ones((256, 256), np.float32), np.empty((256, 256), np.float32)]


def tune_copy_kernel(space=SPACE, **settings):
    """Tunes the number of rows of the tiles of `kernels.copy`."""
    a, c = arrays()
    return tileworks.tune(space, lambda M: (256 // M, 4), kernels.copy, lambda M: (a, c, M, 64), **settings)


def test_the_ranking_is_that_of_the_predicted_times():
    result = tune_copy_kernel()
    a, c = arrays()
    times = {M: tileworks.time((256 // M, 4), kernels.copy, (a, c, M, 64)).seconds for M in SPACE}
    assert [success.config for success in result.successes] == sorted(SPACE, key=times.get)
    assert {success.config: success.seconds for success in result.successes} == times
    assert result.best == result.successes[0] and result.best.mean_us == times[result.best.config] * 1e6
    assert str(result.best.config) in str(result) and "us" in result._repr_html_()


def test_options_and_hints_are_part_of_a_configuration():
    a, c = arrays()
    space = [{"warps": 4, "occupancy": 1}, {"warps": 8, "occupancy": 2}]
    result = tileworks.tune(space, lambda _: (4, 4), kernels.copy, lambda _: (a, c, 64, 64), lambda config: {"occupancy": config["occupancy"]},
                            options=lambda config: [f"--warps={config['warps']}"])
    assert len(result.successes) == 2 and result.successes[0].seconds != result.successes[1].seconds


def test_failures_have_a_type():
    result = tune_copy_kernel([64, 48, 0])
    kinds = {config: kind for config, kind, _ in result.failures}
    assert [success.config for success in result.successes] == [64] and set(kinds) == {48, 0}
    a, c = arrays()
    tuning = tileworks.tune(["4", "5"], lambda _: (4, 4), kernels.copy, lambda _: (a, c, 64, 64), options=lambda warps: [f"--warps={warps}"])
    assert [(config, kind) for config, kind, _ in tuning.failures] == [("5", tileworks.CompileError)]
    with pytest.raises(tileworks.TileworksError, match="every configuration failed"):
        tune_copy_kernel([48])
    with pytest.raises(ValueError, match="no configuration"):
        tune_copy_kernel([])


def test_a_search_continues_with_its_results(tmp_path):
    path = tmp_path / "results.jsonl"
    first = tune_copy_kernel(results=path)
    lines = path.read_text().splitlines()
    assert len(lines) == len(SPACE)
    # Imitate a killed call: the last line of the file is incomplete. Change the times in the other lines, so that the second call
    # returns the changed times only if it reads the file.
    entries = [json.loads(line) for line in lines[:-1]]
    changed = [json.dumps(entry | {"seconds": entry["seconds"] + 1}) for entry in entries]
    path.write_text("\n".join([*changed, lines[-1][:10]]))
    second = tune_copy_kernel(results=path)
    assert sorted(success.seconds >= 1 for success in second.successes) == [False, True, True]
    assert {success.config for success in first.successes} == {success.config for success in second.successes}


def test_a_cluster_predicts_the_same_times_with_one_client(monkeypatch):
    distributed = pytest.importorskip("distributed")
    clients, client = [], distributed.Client
    # The same arrays, because the alignment of an array is part of the kernel's types.
    a, c = arrays()
    search = functools.partial(tileworks.tune, [64, 48, 128], lambda M: (256 // M, 4), kernels.copy, lambda M: (a, c, M, 64))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as machines:
        monkeypatch.setattr(distributed, "Client", lambda *args, **more: clients.append(args) or client(*args, **more))
        remote = search(scheduler=machines.scheduler_address)
    local = search()
    assert len(clients) == 1
    assert remote.successes == local.successes
    assert [(config, kind) for config, kind, _ in remote.failures] == [(config, kind) for config, kind, _ in local.failures]


def test_a_failure_on_a_cluster_has_the_type_of_a_local_one():
    distributed = pytest.importorskip("distributed")
    a, c = arrays()
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as machines:
        result = tileworks.tune(["4", "5"], lambda _: (4, 4), kernels.copy, lambda _: (a, c, 64, 64), options=lambda warps: [f"--warps={warps}"],
                                scheduler=machines.scheduler_address)
    assert [(config, kind) for config, kind, _ in result.failures] == [("5", tileworks.CompileError)]
