/**
 * The keys of the query cache, except that of the session. The live stream patches and invalidates
 * queries by these keys, so take every key from this table: a literal elsewhere could stop matching
 * unnoticed. A key named `all…` is the common prefix of several queries and matches all of them.
 */

export type ListKind = 'nodes' | 'allocations' | 'operations';

/** The filters of a cached list. A live change joins the list only if it passes them. */
export type Filters = Record<string, string>;

/** Leaves out unset filters, so that equal filters make equal keys. */
export const filters = (values: Record<string, string | undefined>): Filters =>
  Object.fromEntries(Object.entries(values).filter((entry): entry is [string, string] => !!entry[1]));

export const keys = {
  allSingle: (kind: ListKind) => [kind, 'one'] as const,
  one: (kind: ListKind, id: string) => [kind, 'one', id] as const,
  allLists: (kind: ListKind) => [kind, 'list'] as const,
  list: (kind: ListKind, filter: Filters) => [kind, 'list', filter] as const,
  allFleets: () => ['nodes', 'fleet'] as const,
  fleet: (pool?: string) => ['nodes', 'fleet', pool ?? ''] as const,
  fleetCounts: () => ['nodes', 'counts'] as const,
  fleetSearch: (filter: Filters) => ['nodes', 'search', filter] as const,
  nodeRows: (ids: readonly string[]) => ['nodes', 'rows', ids] as const,
  nodeForId: (id: string) => ['nodes', 'for-id', id] as const,
  pools: () => ['pools'] as const,
  overview: () => ['overview'] as const,
  allTimelines: () => ['timeline'] as const,
  timeline: (filter: Filters) => ['timeline', filter] as const,
  statusFact: (...idAndStatus: string[]) => ['status-fact', ...idAndStatus] as const,
  allExplanations: () => ['explanation'] as const,
  explanation: (node_id: string) => ['explanation', node_id] as const,
  brake: () => ['brake'] as const,
  sweeps: () => ['sweeps'] as const,
  serverStatus: () => ['server-status'] as const,
  allAllocationActions: () => ['allocation-actions'] as const,
  allocationActions: (allocation_id: string) => ['allocation-actions', allocation_id] as const,
  prediction: (dialog: string, input: object) => ['prediction', dialog, input] as const,
  allFindings: () => ['findings'] as const,
  findingList: (filter: Filters) => ['findings', filter] as const,
  allResidue: () => ['residue'] as const,
  residueList: (filter: Filters) => ['residue', filter] as const,
  allRestorations: () => ['restoration'] as const,
  restoration: () => ['restoration', 'state'] as const,
  restorationDifferences: () => ['restoration', 'differences'] as const,
  allAudits: () => ['audit'] as const,
  audit: (filter: Filters) => ['audit', filter] as const,
  find: (idOrName: string, version: string) => ['found', idOrName, version] as const,
  tokens: () => ['tokens'] as const,
  sessions: () => ['sessions'] as const,
  settings: () => ['settings'] as const,
  allBootStatistics: () => ['pool-boots'] as const,
  bootStatisticsOf: (pool: string) => ['pool-boots', pool] as const,
  whatIf: (pool: string, phase: string, budget_seconds: number) => ['pool-boots', pool, phase, budget_seconds] as const,
  collectedOutput: (node_id: string, status_since: string) => ['collected-output', node_id, status_since] as const,
  allBootStages: () => ['boot'] as const,
  bootStagesOf: (node_id: string, instance: string | null) => ['boot', node_id, instance] as const,
};
