/**
 * `join-tokens`: opens a finding before a join token in use expires. Closes findings of tokens that
 * no machine uses any more, and of contested names that have become quiet. Decides nothing.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { noticeTime } from '../../lifecycle/deadlines/token-expiry.ts';
import { contestQuietSeconds } from '../../lifecycle/joins/contest.ts';
import {
  listQuietContests,
  listTokensInUse,
  readRevokedJoinTokens,
  type TokenInUse,
} from '../../store/agents/joins/tokens-in-use.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const what = 'join_token_expiring' as const;
/** Only tokens that expire within this time are read. */
const maxAheadSeconds = 8 * 86_400;

const findingOf = ({ token_id, pool, expires_at, machines }: TokenInUse) => ({
  what,
  subject: token_id,
  pool,
  node_id: null,
  node_instance_id: null,
  allocation_id: null,
  ours: { token_id, expires_at: expires_at.toISOString() },
  theirs: { machines },
});

export const joinTokens = ({ db, clock, log }: SweepServices): Sweep => ({
  name: 'join-tokens',
  runsAfterRestore: true,
  every_seconds: 60,
  isWokenBy: (kind) => kind === 'join_token.created' || kind === 'join_token.revoked',
  async run(now) {
    const tokensInUse = await listTokensInUse(db, secondsLater(now, maxAheadSeconds));
    const due = tokensInUse.filter((token) => noticeTime(token) <= now);
    const standing = new Map((await standingFindings(db, [what])).map((each) => [each.subject, each]));
    const dueIds = new Set(due.map(({ token_id }) => token_id));
    const outdated = [...standing.values()].filter(({ subject }) => !dueIds.has(subject));
    const quietContestFindings = await listQuietContests(db, secondsLater(now, -contestQuietSeconds));
    const changed = due.filter(({ token_id, machines }) => standing.get(token_id)?.theirs.machines !== machines);
    if (changed.length === 0 && outdated.length === 0 && quietContestFindings.length === 0) return { decided: 0 };
    const revokedIds = await readRevokedJoinTokens(
      db,
      outdated.map(({ subject }) => subject),
    );
    const { revoked = [], unused = [] } = Object.groupBy(outdated, ({ subject }) =>
      revokedIds.has(subject) ? 'revoked' : 'unused',
    );
    const opened = await db.transaction(async (tx) => {
      const findings = changed.map((token) => ({ finding_id: newFindingId(clock), ...findingOf(token) }));
      await endFindings(tx, revoked, 'the token was revoked', now);
      await endFindings(tx, unused, 'no machine uses the token any more', now);
      await endFindings(tx, quietContestFindings, 'no machine asks for the name any more', now);
      return noteDisagreements(tx, findings, now, now, () => true);
    });
    const openedIds = new Set(opened.map(({ subject }) => subject));
    for (const { token_id, pool, expires_at, machines } of due.filter((each) => openedIds.has(each.token_id)))
      log.warn(
        { token_id, pool, expires_at, machines, seconds_left: Math.round(secondsBetween(now, expires_at)) },
        'a join token that machines use expires; create another and restart them with it',
      );
    return { decided: opened.length };
  },
});
