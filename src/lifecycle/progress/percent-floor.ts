/**
 * Keeps a shown percentage from falling. Remembers the highest percentage that this process has
 * shown for each operation, because the row has only the last published one. Otherwise a clock that
 * is set back could lower the percentage.
 */
export interface PercentFloor {
  /** The percentage to show, never less than before. */
  raise(workflow_id: string, percent: number): number;
}

const maxEntries = 20_000;

export function createPercentFloor(): PercentFloor {
  const shown = new Map<string, number>();
  return {
    raise(workflow_id, percent) {
      const raised = Math.max(percent, shown.get(workflow_id) ?? 0);
      // A finished operation needs no entry.
      shown.delete(workflow_id);
      if (raised < 100) shown.set(workflow_id, raised);
      // Evicts the least recently used.
      const [oldest] = shown.size > maxEntries ? shown.keys() : [];
      if (oldest !== undefined) shown.delete(oldest);
      return raised;
    },
  };
}
