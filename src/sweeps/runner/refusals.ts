/**
 * Remembers, from evidence, which machines' heartbeats are refused, so that verdicts on silence can
 * say so without a query. A replica that has just started may not know yet and then reports plain
 * silence.
 */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { isStillRefused, type RefusedBeats, refusedBeatsIn } from '../../lifecycle/findings/refused-beats.ts';

export interface Refusals {
  observe(fact: Evidence): void;
  /**
   * The reason, short because tenants see it too; null if there is none, or the machine was heard
   * since.
   */
  why(node_instance_id: string | null, last_seen_at: Date | null, now: Date): string | null;
}

/** The machine is not to blame: an operator issued or revoked its relay's token. */
export const refusedInWords = (why: string): string => `its heartbeats arrive and are refused, for ${why}`;
export const ownerOfRefusal = { owner_layer: 'operator' } as const;

const maxKept = 50_000;

export function createRefusals(): Refusals {
  /** Oldest first. */
  const kept = new Map<string, RefusedBeats>();
  return {
    observe(fact) {
      const refused = refusedBeatsIn(fact, String(fact.data.pool));
      const id = fact.node_instance_id;
      if (!refused || !id) return;
      kept.delete(id);
      const [oldest] = kept.keys();
      if (kept.size >= maxKept && oldest !== undefined) kept.delete(oldest);
      kept.set(id, refused);
    },
    why(node_instance_id, last_seen_at, now) {
      const refused = kept.get(node_instance_id ?? '');
      return refused && isStillRefused(refused, last_seen_at, now) ? refused.in_short : null;
    },
  };
}
