"""What one host can tell of several; runs of two hosts are in end_to_end."""

import pytest

from transformer.parallel import hosts


def test_results_are_what_json_makes_of_them_on_one_host_too():
    """Catches results that are tuples on one host and lists on several, or fail only there."""
    results = hosts.split_over_hosts(lambda items: [(2 * x, None) for x in items], [1, 2, 3])
    assert results == [[2, None], [4, None], [6, None]]
    with pytest.raises(TypeError, match="not JSON serializable"):
        hosts.split_over_hosts(lambda items: [b"" for _ in items], [1])


@pytest.mark.parametrize("text, seconds", [(None, 45), ("5", 5), ("0", None), ("soon", None)])
def test_heartbeat_is_set_by_the_environment(text, seconds, monkeypatch):
    """Catches a setting that is not read, and hosts that wait longer for one that is lost."""
    monkeypatch.delenv(hosts.HEARTBEAT_VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(hosts.HEARTBEAT_VARIABLE, text)
    asked = {}
    monkeypatch.setattr(
        hosts.jax.distributed, "initialize", lambda **options: asked.update(options)
    )
    monkeypatch.setattr(hosts.jax.config, "update", lambda *_: None)
    if seconds:
        hosts.connect("host:1", 2, 0, say=print, on_timeout=pytest.fail)
        assert asked["heartbeat_timeout_seconds"] == asked["shutdown_timeout_seconds"] == seconds
    else:
        with pytest.raises(ValueError, match="TRANSFORMER_HEARTBEAT_SECONDS must be a number"):
            hosts.connect("host:1", 2, 0, say=print, on_timeout=pytest.fail)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("host", 2, 0), "--coordinator must be HOST:PORT, as 10.0.0.2:1234, not host."),
        (("host:port", 2, 0), "--coordinator must be HOST:PORT"),
        (("host:1", 2, 2), r"--process_id must be below --num_processes \(2\), not 2"),
    ],
)
def test_an_address_without_a_port_is_refused(flags, said):
    """Catches an IndexError of JAX, and a process that waits for one that cannot be."""
    with pytest.raises(ValueError, match=said):
        hosts.connect(*flags, say=print, on_timeout=pytest.fail)
