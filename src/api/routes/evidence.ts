/** What others tell us: an ingress, a deploy tool, whoever saw something that belongs to the story of a machine. */
import { now } from '../../base/clock.ts';
import type { KnownIds } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors.ts';
import type { OutsideFact } from '../../contract/evidence.ts';
import { type OutsideRow, recordOutsideFacts } from '../../store/evidence.ts';
import { misplacedIds } from '../../store/outside-facts.ts';
import { refuseReservedKinds } from '../outside-kinds.ts';
import { actorOf, type Handlers } from '../services.ts';

const words = {
  allocation_id: 'must name an allocation of yours',
  node_id: 'must name a machine that is known, and that of the allocation',
  node_instance_id: 'must name an instance of that machine',
  workflow_id: 'must name an operation that is known, and yours',
} as const;

export const evidenceHandlers: Pick<Handlers, 'evidence-create'> = {
  async 'evidence-create'({ body, person, correlation_id }, services) {
    refuseReservedKinds(body.facts);
    const wrong = await misplacedIds(services.db, body.facts, person().tenant);
    if (wrong.length > 0)
      throw new ApiProblem('invalid_request', {
        detail: 'A fact names what is not known here, or is not yours to tell of.',
        errors: wrong.map(({ place, id }) => ({ path: `/body/facts/${place}/${id}`, message: words[id] })),
      });
    const at = now(services.clock);
    const actor = actorOf(person());
    // Its place in the story is where we heard of it; when it happened, its teller says.
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
