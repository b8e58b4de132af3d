/**
 * A token in use gets one finding before it expires. The finding closes when the token is revoked,
 * replaced, expired or no longer used.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { newTokenId } from '../../base/ids.ts';
import { createToken, revokeToken } from '../../store/rows/tokens.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { tokenExpiry } from './token-expiry.ts';

let fixture: RuleFixture;
let warned: object[];
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  warned = [];
});
afterEach(() => fixture.close());

const day = 86_400;
const runSweep = (seconds: number) =>
  tokenExpiry({ ...fixture.services, log: { warn: (facts: object) => warned.push(facts) } } as never).run(
    fixture.at(seconds),
  );

interface TokenOptions {
  name?: string;
  role?: 'operator' | 'viewer';
  tenant?: string | null;
  created?: number;
  expires?: number | null;
}

/** Adds a token that lives ten days by default. */
async function addToken({
  name = 'ci',
  role = 'operator',
  tenant = null,
  created = 0,
  expires = 10 * day,
}: TokenOptions = {}) {
  const token_id = newTokenId(fixture.clock);
  const life = { created_at: fixture.at(created), expires_at: expires === null ? null : fixture.at(expires) };
  await createToken(fixture.db, { token_id, name, role, tenant, pool: null, ...life }, `swt_${token_id}`);
  return token_id;
}
const recordUse = (token_id: string, seconds: number) =>
  fixture.db.query(
    `insert into token_uses values ($1, $2)
     on conflict (token_id) do update set last_used_at = excluded.last_used_at`,
    [token_id, fixture.at(seconds)],
  );
const readFindings = () =>
  fixture.db.query<{ subject: string; status: string; reason: string | null; theirs: object }>(
    `select subject, status, reason, theirs from findings where what = 'token_expiring' order by subject`,
  );

test("opens one finding and logs one line in the last tenth of the token's life, and closes it at the expiry", async () => {
  const id = await addToken();
  await addToken({ name: 'never-used' });
  const stale = await addToken({ name: 'not-for-a-week' });
  const endless = await addToken({ name: 'endless', expires: null });
  await recordUse(id, 8 * day);
  await recordUse(stale, day);
  await recordUse(endless, 8 * day);
  expect(await runSweep(9 * day - 1)).toEqual({ decided: 0 });
  expect(await readFindings()).toEqual([]);

  expect(await runSweep(9 * day)).toEqual({ decided: 1 });
  expect(await readFindings()).toMatchObject([
    { subject: id, status: 'open', theirs: { last_used_at: fixture.at(8 * day).toISOString() } },
  ]);
  expect(warned).toEqual([expect.objectContaining({ token_id: id, name: 'ci', role: 'operator', seconds_left: day })]);

  await recordUse(id, 9 * day + 7200);
  expect(await runSweep(9 * day + 7260), 'the finding is reported once').toEqual({ decided: 0 });
  expect(warned).toHaveLength(1);
  expect(await readFindings(), 'the finding shows the newest use').toMatchObject([
    { status: 'open', theirs: { last_used_at: fixture.at(9 * day + 7200).toISOString() } },
  ]);

  await runSweep(10 * day);
  expect(await readFindings()).toMatchObject([{ subject: id, status: 'resolved', reason: 'the token has expired' }]);
  expect(await runSweep(10 * day + 60)).toEqual({ decided: 0 });
  expect(await readFindings()).toHaveLength(1);
  const facts = await fixture.db.query<{ kind: string }>(
    `select kind from evidence where data ->> 'subject' = $1 order by at, kind`,
    [id],
  );
  expect(facts.map(({ kind }) => kind)).toEqual(['finding.opened', 'finding.resolved']);
});

test('a long-lived token is reported at most a week ahead', async () => {
  const id = await addToken({ expires: 365 * day });
  await recordUse(id, 357 * day);
  expect(await runSweep(358 * day - 1)).toEqual({ decided: 0 });
  expect(await runSweep(358 * day)).toEqual({ decided: 1 });
});

test('closes the finding of a revoked token', async () => {
  const id = await addToken();
  await recordUse(id, 9 * day);
  await runSweep(9 * day);
  await revokeToken(fixture.db, id, fixture.at(9 * day + 30));
  await runSweep(9 * day + 60);
  expect(await readFindings()).toMatchObject([{ status: 'resolved', reason: 'the token was revoked' }]);
});

test('closes the finding of a token no longer in use', async () => {
  const id = await addToken({ expires: 100 * day });
  await recordUse(id, 90 * day);
  await runSweep(93 * day);
  expect(await readFindings()).toMatchObject([{ status: 'open' }]);
  await runSweep(97 * day);
  expect(await readFindings()).toMatchObject([{ status: 'resolved', reason: 'the token was not used for 7 days' }]);
});

test('closes the finding only when a longer-lived token of the same name, role and scope is in use', async () => {
  const id = await addToken();
  await recordUse(id, 9 * day);
  const others = [
    await addToken({ name: 'another' }),
    await addToken({ role: 'viewer', expires: null }),
    await addToken({ tenant: 'acme', expires: null }),
    await addToken({ created: 9 * day, expires: 10 * day }),
  ];
  await runSweep(9 * day);
  for (const other of others) await recordUse(other, 9 * day);
  await recordUse(await addToken({ expires: null }), day);
  const next = await addToken({ created: 9 * day, expires: 30 * day });
  await runSweep(9 * day + 60);
  const readOwn = async () => (await readFindings()).find(({ subject }) => subject === id);
  expect(await readOwn(), 'the next token is not used yet, and the endless one not for a week').toMatchObject({
    status: 'open',
  });
  await recordUse(next, 9 * day + 90);
  await runSweep(9 * day + 120);
  expect(await readOwn()).toMatchObject({
    status: 'resolved',
    reason: 'another token of the same name, role and scope is in use',
  });
});
