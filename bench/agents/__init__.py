"""Times of everything that agents call: the MCP server."""

from bench.agents import mcp
from bench.figures import Report


def run(report: Report, *, quick: bool) -> None:
    """Measure the MCP server."""
    mcp.run(report, quick=quick)
