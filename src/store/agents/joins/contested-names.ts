/** Records refused registrations under another machine's name as findings for an operator. */
import type { Clock } from '../../../base/clock.ts';
import { secondsLater } from '../../../base/clock.ts';
import { type NodeId, newFindingId } from '../../../base/ids.ts';
import type { Protocol } from '../../../contract/compat/protocol.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { ContestReason } from '../../../lifecycle/joins/contest.ts';
import type { Database, Transaction } from '../../pg/database.ts';
import { findHolders } from '../../rows/allocations.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../rows/findings.ts';
import type { NodeRow } from '../../rows/nodes.ts';

export interface Contest {
  node: Pick<NodeRow, 'node_id' | 'node_instance_id' | 'pool' | 'name' | 'endpoint'>;
  because: ContestReason;
  /** Null for our own agents. */
  protocol: Protocol | null;
  /** The address in the refused registration. */
  endpoint: string | null;
  join_token_id: string | null;
  /** The IP addresses that the refused registration and the holder's came from, if known. */
  source?: string | null;
  holder_source?: string | null;
}

export class NameContested extends ApiProblem {
  readonly contest: Contest;
  constructor(code: 'name_taken' | 'identity_unproven', detail: string, contest: Contest) {
    super(code, detail);
    this.contest = contest;
  }
}

/** Drops the path and query of an address, which may hold secrets. */
const originOf = (url: string | null): string | null =>
  url !== null && URL.canParse(url) ? new URL(url).origin : null;

/** A repeat within this time is not recorded. */
const minRepeatSeconds = 60;

export async function recordContest(db: Database, contest: Contest, clock: Clock, now: Date): Promise<void> {
  const { node, because, protocol, endpoint, join_token_id, source, holder_source } = contest;
  await db.transaction(async (tx) => {
    const holders = await findHolders(tx, [node.node_id]);
    const finding = {
      finding_id: newFindingId(clock),
      what: 'name_contested' as const,
      subject: node.node_id,
      pool: node.pool,
      node_id: node.node_id,
      node_instance_id: node.node_instance_id,
      allocation_id: holders.get(node.node_id) ?? null,
      ours: { name: node.name, endpoint: originOf(node.endpoint), ...(holder_source && { source: holder_source }) },
      theirs: {
        because,
        protocol: protocol ?? 'agent',
        endpoint: originOf(endpoint),
        ...(source && { source }),
        join_token_id,
      },
    };
    // One refused registration confirms the finding, so it opens at once.
    await noteDisagreements(tx, [finding], secondsLater(now, -minRepeatSeconds), now, () => true);
  });
}

/** Closes the findings of a machine that proved its identity, because the name is its own. */
export async function closeContests(tx: Transaction, node_id: NodeId, now: Date): Promise<void> {
  const standing = await standingFindings(tx, ['name_contested'], [node_id]);
  await endFindings(tx, standing, 'the machine proved its identity', now);
}
