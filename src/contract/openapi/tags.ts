/** Descriptions of the document's tags. */
export const tags: Readonly<Record<string, string>> = {
  server: 'Health, readiness, metrics, settings and counts of this server.',
  session: 'Signing in to the console, and its sessions.',
  tokens: 'Tokens of people, programs and relays.',
  pools: 'Pools, their budgets and their join tokens.',
  secrets: 'Secrets that pools reference in their environment.',
  allocations: 'Claiming and releasing nodes.',
  nodes: 'Machines: status, explanation, logs and actions.',
  operations: 'Work in progress: read, cancel, retry, recover in bulk.',
  evidence: 'Timelines, audit, the live stream, and their cryptographic verification.',
  supervision: 'Rules, the brake, maintenance windows and findings.',
  residue: 'Resources at providers without a live owner.',
  agent: 'Calls of agents and relays.',
  'compat-agentfield': 'Calls of AgentField nodes in their protocol; see docs/how-to/compat-agentfield.md.',
  'compat-molecule': 'Calls of molecule workspaces in their protocol; see docs/how-to/compat-molecule.md.',
};
