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
  const highestShown = new Map<string, number>();
  return {
    raise(workflow_id, percent) {
      const raised = Math.max(percent, highestShown.get(workflow_id) ?? 0);
      // A finished operation needs no entry.
      highestShown.delete(workflow_id);
      if (raised < 100) highestShown.set(workflow_id, raised);
      // Evicts the least recently used.
      const [oldest] = highestShown.size > maxEntries ? highestShown.keys() : [];
      if (oldest !== undefined) highestShown.delete(oldest);
      return raised;
    },
  };
}
