/**
 * Records facts from people and programs. An ingress or a deploy tool can add what it saw to a
 * machine's timeline.
 */
import { now } from '../../base/clock.ts';
import type { KnownIds } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { OutsideFact } from '../../contract/evidence/evidence.ts';
import { findMisplacedIds } from '../../store/agents/outside-fact-ids.ts';
import { type OutsideRow, recordOutsideFacts } from '../../store/evidence/evidence.ts';
import { actorOf } from '../http/callers.ts';
import type { Handlers } from '../services.ts';
import { refuseReservedKinds } from './reserved-kinds.ts';

const messages = {
  allocation_id: 'must name an allocation of yours that is not released',
  node_id: 'must name a known machine that the allocation holds now',
  node_instance_id: 'must name the current instance of that machine',
  workflow_id: 'must name an operation of yours',
} as const;

export const evidenceHandlers: Pick<Handlers, 'evidence-create'> = {
  async 'evidence-create'({ body, person, correlation_id }, services) {
    refuseReservedKinds(body.facts);
    const misplaced = await findMisplacedIds(services.db, body.facts, person().visibility);
    if (misplaced.length > 0)
      throw new ApiProblem('invalid_request', {
        detail: 'A fact has an unknown id, or an id of something that is not yours now.',
        errors: misplaced.map(({ place, id }) => ({ path: `/body/facts/${place}/${id}`, message: messages[id] })),
      });
    const at = now(services.clock);
    const actor = actorOf(person());
    // Facts are ordered by arrival; the caller's own time goes into the data.
    const factOf = ({ at: reported_at, data, ...fact }: OutsideFact): OutsideRow => ({
      ...(fact as Pick<OutsideFact, 'layer' | 'kind' | 'summary'> & KnownIds),
      at,
      data: { ...data, ...(reported_at && { reported_at }) },
      actor,
      correlation_id: (fact.correlation_id as never) ?? correlation_id,
    });
    await recordOutsideFacts(services.db, 'person', body.facts.map(factOf));
    return { facts: body.facts.length };
  },
};
