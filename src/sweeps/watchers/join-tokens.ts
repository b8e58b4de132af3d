/**
 * `join-tokens`: opens a finding before a join token in use expires, and closes settled ones.
 * Decides nothing.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { noticeFrom } from '../../lifecycle/deadlines/token-expiry.ts';
import { contestQuietSeconds } from '../../lifecycle/joins/contest.ts';
import { type DependedToken, dependedTokens, quietContests } from '../../store/agents/joins/depended-tokens.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const what = 'join_token_expiring' as const;
/** No token is reported earlier than this. */
const aheadSeconds = 8 * 86_400;

const findingOf = ({ token_id, pool, expires_at, machines }: DependedToken) => ({
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
  every_seconds: 60,
  woken_by: (kind) => kind === 'join_token.created' || kind === 'join_token.revoked',
  async run(now) {
    const depended = await dependedTokens(db, secondsLater(now, aheadSeconds));
    const due = depended.filter((token) => noticeFrom(token) <= now);
    const standing = new Map((await standingFindings(db, [what])).map((each) => [each.subject, each]));
    const holds = new Set(due.map(({ token_id }) => token_id));
    const over = [...standing.values()].filter(({ subject }) => !holds.has(subject));
    const quiet = await quietContests(db, secondsLater(now, -contestQuietSeconds));
    const news = due.filter(({ token_id, machines }) => standing.get(token_id)?.theirs.machines !== machines);
    if (news.length === 0 && over.length === 0 && quiet.length === 0) return { decided: 0 };
    const opened = await db.transaction(async (tx) => {
      const found = news.map((token) => ({ finding_id: newFindingId(clock), ...findingOf(token) }));
      await endFindings(tx, over, 'no machine beats with it any more', now);
      await endFindings(tx, quiet, 'nobody asks for its name any more', now);
      return noteDisagreements(tx, found, now, now, () => true);
    });
    const openedIds = new Set(opened.map(({ subject }) => subject));
    for (const { token_id, pool, expires_at, machines } of due.filter((each) => openedIds.has(each.token_id)))
      log.warn(
        { token_id, pool, expires_at, machines, seconds_left: Math.round(secondsBetween(now, expires_at)) },
        'a join token expires that machines beat with; make another and start them with it',
      );
    return { decided: opened.length };
  },
});
