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
      if (raised >= 100) shown.delete(workflow_id);
      else {
        if (shown.size >= most) shown.clear();
        shown.set(workflow_id, raised);
      }
      return raised;
    },
  };
}
