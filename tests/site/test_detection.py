from __future__ import annotations

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.site.detection import Candidate, Clue, Detection, detect
from hpcdist.site.model import Detect
from tests.sites import SHIPPED, shipped_site
from tests.wording import Wording

A = Candidate("a", Detect(env={"HOST": "a|aa"}, fqdn=(r"login\d+\.a\.org",)))
B = Candidate("b", Detect(env={"HOST": "b.*"}, fqdn=(r".*\.org",)))
NOTHING = Candidate("nothing", Detect())


def test_site_is_detected_by_a_variable() -> None:
    clues = (
        Clue("a", "HOST=a|aa", "HOST=aa", matches=True),
        Clue("a", r"host name login\d+\.a\.org", "host name x", matches=False),
        Clue("b", "HOST=b.*", "HOST=aa", matches=False),
        Clue("b", r"host name .*\.org", "host name x", matches=False),
    )
    found = detect([NOTHING, A, B], {"HOST": "aa"}, "x")
    assert found == Detection("a", clues)
    assert found.matches == {"a": "HOST=aa"}


@pytest.mark.parametrize(
    ("fqdn", "name"),
    [
        ("login1.a.org", "a"),
        ("LOGIN1.A.ORG.", "a"),
        ("login1.a.organ", None),
        ("xlogin1.a.org", None),
        ("login1", None),
        ("", None),
    ],
)
def test_site_is_detected_by_its_full_host_name_only(fqdn: str, name: str | None) -> None:
    found = detect([NOTHING, A], {}, fqdn)
    assert found.site == name


@pytest.mark.parametrize("value", ["", "xa", "aaa", "A", "a\n"])
def test_pattern_must_match_the_whole_value(value: str) -> None:
    assert detect([A], {"HOST": value}, "x").site is None


def test_unset_variable_does_not_match() -> None:
    anything = Candidate("any", Detect(env={"HOST": ".*"}))
    assert detect([anything], {}, "x") == Detection(
        None, (Clue("any", "HOST=.*", "HOST is not set", matches=False),)
    )
    assert detect([anything], {"HOST": ""}, "x").site == "any"


def test_two_clues_of_one_site_are_one_match() -> None:
    found = detect([A], {"HOST": "a"}, "login1.a.org")
    assert found.site == "a"
    assert found.matches == {"a": "HOST=a and host name login1.a.org"}


def test_two_matching_sites_are_an_error(wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        detect([A, B], {"HOST": "a"}, "n1.org")
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("environment", "fqdn", "name"),
    [
        ({"NERSC_HOST": "perlmutter"}, "nid001234", "perlmutter"),
        ({}, "login07.perlmutter.nersc.gov", "perlmutter"),
        ({}, "login07.frontier.olcf.ornl.gov", "frontier"),
        ({}, "login28.chn.perlmutter.nersc.gov", "perlmutter"),
        ({}, "setonix-03.head.cm.setonix.pawsey.org.au", "setonix"),
        ({}, "setonix-01.pawsey.org.au", "setonix"),
        ({}, "kl2.head.cm.kestrel.hpc.nrel.gov", "kestrel"),
        ({}, "levante2.lvt.dkrz.de", "levante"),
        ({}, "login01.expanse.sdsc.edu", "expanse"),
        ({}, "login-4.saga", "saga"),
        ({}, "jrlogin10.jureca", "jureca-dc"),
        ({}, "jean-zay3.idris.fr", "jean-zay"),
        ({}, "alogin1.bsc.es", "marenostrum5"),
        ({"SYSTEMNAME": "juwelsbooster"}, "jwlogin22", "juwels-booster"),
        ({"SYSTEMNAME": "juwels"}, "jwlogin01", None),
        ({"HPCDIST_TESTBED": "1"}, "n1", "testbed"),
        ({}, "login07", None),
        ({}, "nid001234", None),
        ({}, "localhost", None),
    ],
)
def test_shipped_sites(environment: dict[str, str], fqdn: str, name: str | None) -> None:
    sites = (Candidate(name, shipped_site(name).detect) for name in SHIPPED)
    assert detect(sites, environment, fqdn).site == name
