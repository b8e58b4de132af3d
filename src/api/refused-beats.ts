/**
 * A relay that may not speak for a machine keeps it from being heard. Whoever asks why that machine is silent must find it: the first
 * refusal is a row on its timeline, repeats are counted.
 */
import { type Clock, now } from '../base/clock.ts';
import type { AgentSession } from '../store/agent-sessions.ts';
import type { Queryable } from '../store/database.ts';
import { recordEvidence } from '../store/evidence.ts';
import { actorOf, type Relay } from './services.ts';
import { createToldOnce } from './told-once.ts';

export type TellRefusedBeat = (session: AgentSession, relay: Relay, why: string) => void;

export function createRefusedBeats(db: Queryable, clock: Clock, onError: (error: unknown) => void): TellRefusedBeat {
  const toldOnce = createToldOnce(clock);
  return ({ node_id, node_instance_id }, relay, why) => {
    const telling = toldOnce({ actor: relay.token_id, what: 'beat', target: node_instance_id });
    if (!telling) return;
    const whose = telling.of_many_targets ? {} : { node_id, node_instance_id };
    recordEvidence(db, [
      {
        at: now(clock),
        layer: 'api',
        kind: 'request.denied',
        summary: `its beats are refused, so it is not heard: ${why}`,
        data: { why_not: why, relay: relay.name, ...telling },
        actor: actorOf(relay),
        ...whose,
      },
    ]).catch(onError);
  };
}
