"""Qualification of an agent API server with the real host and a real Chromium.

``graph`` is a model-free graph to be served; ``python -m chaperone_browser.qualify``
drives it through every scenario and prints one JSON row each. It says nothing of a
model, and of nothing that it didn't run.
"""
