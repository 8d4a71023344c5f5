"""What AMI selector terms ask of SSM and EC2, as recorded: aliases, Kubernetes versions, kinds of term."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import SelectorTerm
from dovetail.cloud.aws.amifamily import images
from dovetail.model.requirement import Requirements

VECTORS = Path(__file__).parent / "vectors" / "aws" / "ami_queries.json.gz"
Case = dict[str, Any]


@lru_cache(maxsize=1)
def _recorded() -> Case:
    document: Case = json.loads(gzip.decompress(VECTORS.read_bytes()))
    return document


def _image_id(parameter: str) -> str:
    """Ids that the recorder invented."""
    return f"ami-{hashlib.sha256(parameter.encode()).hexdigest()[:17]}"


def _written(variants: tuple[Requirements, ...]) -> list[str]:
    """Sets of requirements in one order; the architecture is known from the image, not the alias."""
    sets = [
        {item.key: {"operator": item.operator(), "values": sorted(item.values)} for item in variant}
        for variant in variants
    ]
    return sorted(json.dumps(one, sort_keys=True) for one in sets)


def _query(query: images.ImageQuery) -> Case:
    return {
        "filters": [{"name": item.name, "values": list(item.values)} for item in query.filters],
        "includeDeprecated": True,
        "maxResults": images.MOST_RESULTS,
        "owners": list(query.owners) or None,
    }


@pytest.mark.parametrize(
    "case", _recorded()["aliases"], ids=lambda case: f"{case['alias']}-{case['kubernetesVersion']}"
)
def test_aliases(case: Case) -> None:
    alias, version = case["alias"], case["kubernetesVersion"]
    found = images.parameters(alias, version)
    assert [(item.name, item.mutable, _image_id(item.name), _written(item.variants)) for item in found] == [
        (
            item["name"],
            item["mutable"],
            item["imageID"],
            sorted(json.dumps(one, sort_keys=True) for one in item["requirements"]),
        )
        for item in case["parameters"]
    ]
    asked = images.queries([SelectorTerm(alias=alias)], [_image_id(item.name) for item in found])
    assert [_query(query) for query in asked] == [case["describeImages"]]
    assert images.unsupported(alias, version) == case.get("providerError", "")
    assert images.nothing_behind(alias) == case["errorIfNoParameterAnswers"]


@pytest.mark.parametrize(
    "case", _recorded()["otherSelectorTerms"], ids=lambda case: json.dumps(case["amiSelectorTerms"])
)
def test_other_terms(case: Case) -> None:
    terms = [decode(term, SelectorTerm) for term in case["amiSelectorTerms"]]
    answers = case.get("ssmParameters", {})
    named = [
        answers.get(term.ssm_parameter, _image_id(term.ssm_parameter)) for term in terms if term.ssm_parameter
    ]
    wanted = [{"filters": query.pop("filtersSortedByName"), **query} for query in map(dict, case["queries"])]
    assert [_query(query) for query in images.queries(terms, named)] == wanted
