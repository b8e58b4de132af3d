/**
 * `token-expiry`: opens a finding before a token in use expires, and closes it once no renewal is
 * needed. Decides nothing.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import {
  inUseSeconds,
  maxNoticeSeconds,
  needsNotice,
  type SettledReason,
  settledBy,
  settledReasons,
} from '../../lifecycle/deadlines/token-expiry.ts';
import { endFindings, type FindingRow, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import { type ExpiringToken, expiringTokens } from '../../store/rows/sign-in/expiring-tokens.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const what = 'token_expiring' as const;
/** How often the last use shown in an open finding is refreshed. */
const refreshSeconds = 3600;

const findingOf = ({ token_id, name, role, tenant, pool, expires_at, last_used_at }: ExpiringToken) => ({
  what,
  subject: token_id,
  pool,
  node_id: null,
  node_instance_id: null,
  allocation_id: null,
  ours: { token_id, name, role, tenant, pool, expires_at: expires_at.toISOString() },
  theirs: { last_used_at: last_used_at?.toISOString() ?? null },
});

const isStale = ({ seen_at }: FindingRow, { last_used_at }: ExpiringToken) =>
  last_used_at !== null && secondsBetween(seen_at, last_used_at) >= refreshSeconds;

export const tokenExpiry = ({ db, clock, log }: SweepServices): Sweep => ({
  name: 'token-expiry',
  every_seconds: 60,
  woken_by: (kind) => kind === 'token.created' || kind === 'token.revoked',
  async run(now) {
    const standing = await standingFindings(db, [what]);
    const known = new Map(standing.map((finding) => [finding.subject, finding]));
    const tokens = await expiringTokens(db, {
      now,
      expires_until: secondsLater(now, maxNoticeSeconds),
      used_after: secondsLater(now, -inUseSeconds),
      token_ids: [...known.keys()],
    });
    const news = tokens.filter((token) => {
      const finding = known.get(token.token_id);
      return needsNotice(token, now) && (!finding || isStale(finding, token));
    });
    const settled = new Map(tokens.map((token) => [token.token_id, settledBy(token, now)]));
    const over = Map.groupBy(standing, ({ subject }) => settled.get(subject) ?? null);
    over.delete(null);
    if (news.length === 0 && over.size === 0) return { decided: 0 };
    const opened = await db.transaction(async (tx) => {
      for (const [reason, findings] of over)
        await endFindings(tx, findings, settledReasons[reason as SettledReason], now);
      const found = news.map((token) => ({ finding_id: newFindingId(clock), ...findingOf(token) }));
      return noteDisagreements(tx, found, now, now, () => true);
    });
    const openedIds = new Set(opened.map(({ subject }) => subject));
    for (const { token_id, name, role, tenant, pool, expires_at } of news.filter((each) =>
      openedIds.has(each.token_id),
    ))
      log.warn(
        { token_id, name, role, tenant, pool, expires_at, seconds_left: Math.round(secondsBetween(now, expires_at)) },
        'a token in use expires soon; make another of the same name and use that',
      );
    return { decided: opened.length };
  },
});
