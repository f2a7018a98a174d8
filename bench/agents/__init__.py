"""Times and quality of what agents get from memoryd: the MCP server, recall and hooks."""

from bench.agents import hooks, mcp, recall
from bench.figures import Report


def run(report: Report, *, quick: bool) -> None:
    """Measure the MCP server, recall on its set, and hooks."""
    mcp.run(report, quick=quick)
    recall.run(report)
    hooks.run(report, quick=quick)
