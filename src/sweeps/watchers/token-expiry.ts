/**
 * `token-expiry`: opens a finding before a token in use expires, and closes it once no renewal is
 * needed. Decides nothing.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import {
  findSettledReason,
  inUseSeconds,
  maxNoticeSeconds,
  needsNotice,
  type SettledReason,
  settledReasons,
} from '../../lifecycle/deadlines/token-expiry.ts';
import { endFindings, type FindingRow, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import { type ExpiringToken, listExpiringTokens } from '../../store/rows/sign-in/expiring-tokens.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const what = 'token_expiring' as const;
/** The last use in an open finding is updated when it is this much newer. */
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

const needsRefresh = ({ seen_at }: FindingRow, { last_used_at }: ExpiringToken) =>
  last_used_at !== null && secondsBetween(seen_at, last_used_at) >= refreshSeconds;

export const tokenExpiry = ({ db, clock, log }: SweepServices): Sweep => ({
  name: 'token-expiry',
  runsAfterRestore: true,
  every_seconds: 60,
  isWokenBy: (kind) => kind === 'token.created' || kind === 'token.revoked',
  async run(now) {
    const openFindings = await standingFindings(db, [what]);
    const findingByToken = new Map(openFindings.map((finding) => [finding.subject, finding]));
    const tokens = await listExpiringTokens(db, {
      now,
      expires_until: secondsLater(now, maxNoticeSeconds),
      used_after: secondsLater(now, -inUseSeconds),
      token_ids: [...findingByToken.keys()],
    });
    const tokensToReport = tokens.filter((token) => {
      const finding = findingByToken.get(token.token_id);
      return needsNotice(token, now) && (!finding || needsRefresh(finding, token));
    });
    const settledReasonOf = new Map(tokens.map((token) => [token.token_id, findSettledReason(token, now)]));
    const findingsByReason = Map.groupBy(openFindings, ({ subject }) => settledReasonOf.get(subject) ?? null);
    findingsByReason.delete(null);
    if (tokensToReport.length === 0 && findingsByReason.size === 0) return { decided: 0 };
    const opened = await db.transaction(async (tx) => {
      for (const [reason, findings] of findingsByReason)
        await endFindings(tx, findings, settledReasons[reason as SettledReason], now);
      const findings = tokensToReport.map((token) => ({ finding_id: newFindingId(clock), ...findingOf(token) }));
      return noteDisagreements(tx, findings, now, now, () => true);
    });
    const openedIds = new Set(opened.map(({ subject }) => subject));
    for (const { token_id, name, role, tenant, pool, expires_at } of tokensToReport.filter((each) =>
      openedIds.has(each.token_id),
    ))
      log.warn(
        { token_id, name, role, tenant, pool, expires_at, seconds_left: Math.round(secondsBetween(now, expires_at)) },
        'a token in use expires soon; create another with the same name and use that one',
      );
    return { decided: opened.length };
  },
});
