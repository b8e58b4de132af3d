/**
 * The most that one process has shown of each operation. Rows say how far it was when it last published; what was shown
 * since then must not be taken back by a clock that is set back.
 */
export interface ShownPercent {
  /** What may be shown of it now: never less than before. */
  raise(workflow_id: string, percent: number): number;
}

const most = 20_000;

export function createShownPercent(): ShownPercent {
  const shown = new Map<string, number>();
  return {
    raise(workflow_id, percent) {
      const raised = Math.max(percent, shown.get(workflow_id) ?? 0);
      // What is whole needs no memory.
      shown.delete(workflow_id);
      if (raised < 100) shown.set(workflow_id, raised);
      // Whoever was not asked for the longest is forgotten first.
      const [forgotten] = shown.size > most ? shown.keys() : [];
      if (forgotten !== undefined) shown.delete(forgotten);
      return raised;
    },
  };
}
