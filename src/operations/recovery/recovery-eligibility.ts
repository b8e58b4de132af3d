/** To which of those that a filter names the action is open now, and why not to the others. */

import type { Recovery } from '../../contract/supervision/recovery.ts';
import {
  type BulkActionName,
  isAboutAllocations,
  type NodeBulkAction,
  whyNotInBulk,
} from '../../lifecycle/actions/recovery.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { readNodes } from '../../store/rows/nodes.ts';
import { currentDocuments } from '../../store/rows/pools.ts';
import { nodeSubjects } from '../actions/offers.ts';

export type Eligibility = Pick<Recovery, 'matched' | 'eligible' | 'not_eligible' | 'first'>;

/** So many are named beforehand. */
const mostNamed = 10;
/** So many are looked at by one round of statements. */
const atOnce = 1_000;

async function whyNots(db: Queryable, action: NodeBulkAction, ids: readonly string[]): Promise<Map<string, string>> {
  const why_nots = new Map<string, string>();
  for (let from = 0; from < ids.length; from += atOnce) {
    const nodes = await readNodes(db, ids.slice(from, from + atOnce), wholeFleet);
    const pools = await currentDocuments(
      db,
      nodes.map(({ pool }) => pool),
    );
    for (const [index, subject] of (await nodeSubjects(db, nodes)).entries()) {
      const node = nodes[index];
      const document = node && pools.get(node.pool);
      const why_not = whyNotInBulk(action, subject, document ? { paused: document.paused ?? false } : null);
      if (node && why_not !== null) why_nots.set(node.node_id, why_not);
    }
  }
  return why_nots;
}

/** In the order of their turns, as they are given. */
export async function eligibilityOf(
  db: Queryable,
  action: BulkActionName,
  ids: readonly string[],
): Promise<Eligibility> {
  // A release that has failed may always be tried again; that is what was chosen by.
  const why_nots = isAboutAllocations(action) ? new Map<string, string>() : await whyNots(db, action, ids);
  const eligible = ids.filter((id) => !why_nots.has(id));
  const others = Map.groupBy(
    ids.filter((id) => why_nots.has(id)),
    (id) => why_nots.get(id) ?? '',
  );
  return {
    matched: ids.length,
    eligible: eligible.length,
    not_eligible: [...others]
      .map(([why_not, all]) => ({ why_not, count: all.length, first: all.slice(0, mostNamed) }))
      .sort((a, b) => b.count - a.count),
    first: eligible.slice(0, mostNamed),
  };
}
