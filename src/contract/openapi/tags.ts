/** Descriptions of the document's tags. */
export const tags: Readonly<Record<string, string>> = {
  server: 'Health, readiness, metrics, settings and counts of this server.',
  session: 'Signing in to the console, and its sessions.',
  tokens: 'Tokens of people, programs and relays.',
  pools: 'Pools, their budgets and their join tokens.',
  secrets: 'Secrets that pools name in their environment.',
  allocations: 'Claiming a node, and giving it back.',
  nodes: 'Machines, and what is known about each.',
  operations: 'Work in progress: read, cancel, retry, recover in bulk.',
  evidence: 'Timelines, audit, the live stream, and proofs of both.',
  supervision: 'Rules at work, the brake, maintenance windows and findings.',
  residue: 'What is left upstream without a live owner.',
  agent: 'What agents and relays call.',
  'compat-agentfield': 'What AgentField nodes call, in their protocol; see docs/how-to/compat-agentfield.md.',
  'compat-molecule': 'What molecule workspaces call, in their protocol; see docs/how-to/compat-molecule.md.',
};
