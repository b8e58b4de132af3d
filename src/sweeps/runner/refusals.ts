/**
 * Remembers from evidence which machines' heartbeats are refused, so that verdicts on silence can
 * say so without a query. A replica that has just started has not read earlier refusals; its
 * verdicts report plain silence until the refusals are recorded again.
 */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { isStillRefused, type RefusedBeats, readRefusedBeats } from '../../lifecycle/findings/refused-beats.ts';

export interface Refusals {
  observe(fact: Evidence): void;
  /**
   * Returns why heartbeats are refused, in the short form because tenants see it too. Null if none
   * was refused, or one was accepted since.
   */
  findReason(node_instance_id: string | null, last_seen_at: Date | null, now: Date): string | null;
}

export const describeRefusal = (why: string): string => `its heartbeats arrived and were refused, for ${why}`;
/** The machine is not to blame: an operator must issue another token or let it enrol again. */
export const ownerOfRefusal = { owner_layer: 'operator' } as const;

const maxEntries = 50_000;

export function createRefusals(): Refusals {
  /** By instance, oldest refusal first. */
  const refusedBeats = new Map<string, RefusedBeats>();
  return {
    observe(fact) {
      const refused = readRefusedBeats(fact, String(fact.data.pool));
      const id = fact.node_instance_id;
      if (!refused || !id) return;
      refusedBeats.delete(id);
      const [oldest] = refusedBeats.keys();
      if (refusedBeats.size >= maxEntries && oldest !== undefined) refusedBeats.delete(oldest);
      refusedBeats.set(id, refused);
    },
    findReason(node_instance_id, last_seen_at, now) {
      const refused = refusedBeats.get(node_instance_id ?? '');
      return refused && isStillRefused(refused, last_seen_at, now) ? refused.in_short : null;
    },
  };
}
