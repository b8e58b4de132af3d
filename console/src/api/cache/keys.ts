/**
 * The keys of the query cache. The live stream patches and invalidates cached queries by these
 * keys, so take every key from here: a literal elsewhere would not match.
 */

export type ListKind = 'nodes' | 'allocations' | 'operations';

/** Filters that the server applied to a list. Only live changes that pass them join the list. */
export type Filters = Record<string, string>;

/** Leaves out unset filters, so that equal filters make equal keys. */
export const filters = (values: Record<string, string | undefined>): Filters =>
  Object.fromEntries(Object.entries(values).filter((entry): entry is [string, string] => !!entry[1]));

export const keys = {
  one: (kind: ListKind, id: string) => [kind, 'one', id] as const,
  lists: (kind: ListKind) => [kind, 'list'] as const,
  list: (kind: ListKind, filter: Filters) => [kind, 'list', filter] as const,
  fleets: () => ['nodes', 'fleet'] as const,
  fleet: (pool?: string) => ['nodes', 'fleet', pool ?? ''] as const,
  fleetCounts: () => ['nodes', 'counts'] as const,
  fleetSearch: (filter: Filters) => ['nodes', 'search', filter] as const,
  nodeRows: (ids: readonly string[]) => ['nodes', 'rows', ids] as const,
  nodeForId: (id: string) => ['nodes', 'behind', id] as const,
  pools: () => ['pools'] as const,
  overview: () => ['overview'] as const,
  timelines: () => ['timeline'] as const,
  timeline: (filter: Filters) => ['timeline', filter] as const,
  statusFacts: () => ['status-fact'] as const,
  explanations: () => ['explanation'] as const,
  explanation: (node_id: string) => ['explanation', node_id] as const,
  brake: () => ['brake'] as const,
  sweeps: () => ['sweeps'] as const,
  offers: () => ['offers'] as const,
  offer: (allocation_id: string) => ['offers', allocation_id] as const,
  prediction: (dialog: string, input: object) => ['prediction', dialog, input] as const,
  findings: () => ['findings'] as const,
  findingList: (filter: Filters) => ['findings', filter] as const,
  residues: () => ['residue'] as const,
  residueList: (filter: Filters) => ['residue', filter] as const,
  audits: () => ['audit'] as const,
  audit: (filter: Filters) => ['audit', filter] as const,
  find: (idOrName: string, version: string) => ['found', idOrName, version] as const,
  tokens: () => ['tokens'] as const,
  sessions: () => ['sessions'] as const,
  settings: () => ['settings'] as const,
  bootStatistics: () => ['pool-boots'] as const,
  bootStatisticsOf: (pool: string) => ['pool-boots', pool] as const,
  whatIf: (pool: string, phase: string, budget_seconds: number) => ['pool-boots', pool, phase, budget_seconds] as const,
  leftOnMachine: (node_id: string, status_since: string) => ['left-on-machine', node_id, status_since] as const,
  bootStages: () => ['boot'] as const,
  bootStagesOf: (node_id: string, instance: string | null) => ['boot', node_id, instance] as const,
};
