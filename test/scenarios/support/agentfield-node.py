"""A minimal node of an AgentField user: the published SDK and one address."""

import os

from agentfield import Agent

port = int(os.environ["PORT"])
agent = Agent(
    node_id=os.environ["NODE_ID"],
    agentfield_server=os.environ["AGENTFIELD_SERVER"],
    callback_url=os.environ.get("CALLBACK_URL", f"http://127.0.0.1:{port}"),
)
agent.serve(port=port, host="127.0.0.1")
