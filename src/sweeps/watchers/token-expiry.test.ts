/**
 * A token in use is reported once before it expires, until it is revoked, replaced, expired or no
 * longer used.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { newTokenId } from '../../base/ids.ts';
import { createToken, revokeToken } from '../../store/rows/tokens.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { tokenExpiry } from './token-expiry.ts';

let stage: Stage;
let warned: object[];
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  warned = [];
});
afterEach(() => stage.close());

const day = 86_400;
const sweep = (seconds: number) =>
  tokenExpiry({ ...stage.services, log: { warn: (facts: object) => warned.push(facts) } } as never).run(
    stage.at(seconds),
  );

interface Wanted {
  name?: string;
  role?: 'operator' | 'viewer';
  tenant?: string | null;
  created?: number;
  expires?: number | null;
}

/** A token that lives ten days by default. */
async function token({ name = 'ci', role = 'operator', tenant = null, created = 0, expires = 10 * day }: Wanted = {}) {
  const token_id = newTokenId(stage.clock);
  const life = { created_at: stage.at(created), expires_at: expires === null ? null : stage.at(expires) };
  await createToken(stage.db, { token_id, name, role, tenant, pool: null, ...life }, `swt_${token_id}`);
  return token_id;
}
const use = (token_id: string, seconds: number) =>
  stage.db.query(
    `insert into token_uses values ($1, $2)
     on conflict (token_id) do update set last_used_at = excluded.last_used_at`,
    [token_id, stage.at(seconds)],
  );
const findings = () =>
  stage.db.query<{ subject: string; status: string; reason: string | null; theirs: object }>(
    `select subject, status, reason, theirs from findings where what = 'token_expiring' order by subject`,
  );

test('opens a finding and writes one log line in the last tenth of its life, until the token ends', async () => {
  const id = await token();
  await token({ name: 'never-used' });
  const stale = await token({ name: 'not-for-a-week' });
  const endless = await token({ name: 'endless', expires: null });
  await use(id, 8 * day);
  await use(stale, day);
  await use(endless, 8 * day);
  expect(await sweep(9 * day - 1)).toEqual({ decided: 0 });
  expect(await findings()).toEqual([]);

  expect(await sweep(9 * day)).toEqual({ decided: 1 });
  expect(await findings()).toMatchObject([
    { subject: id, status: 'open', theirs: { last_used_at: stage.at(8 * day).toISOString() } },
  ]);
  expect(warned).toEqual([expect.objectContaining({ token_id: id, name: 'ci', role: 'operator', seconds_left: day })]);

  await use(id, 9 * day + 7200);
  expect(await sweep(9 * day + 7260), 'it is reported once').toEqual({ decided: 0 });
  expect(warned).toHaveLength(1);
  expect(await findings(), 'and shows the newest use').toMatchObject([
    { status: 'open', theirs: { last_used_at: stage.at(9 * day + 7200).toISOString() } },
  ]);

  await sweep(10 * day);
  expect(await findings()).toMatchObject([{ subject: id, status: 'resolved', reason: 'the token has expired' }]);
  expect(await sweep(10 * day + 60)).toEqual({ decided: 0 });
  expect(await findings()).toHaveLength(1);
  const facts = await stage.db.query<{ kind: string }>(
    `select kind from evidence where data ->> 'subject' = $1 order by at, kind`,
    [id],
  );
  expect(facts.map(({ kind }) => kind)).toEqual(['finding.opened', 'finding.resolved']);
});

test('a long-lived token is reported at most a week ahead', async () => {
  const id = await token({ expires: 365 * day });
  await use(id, 357 * day);
  expect(await sweep(358 * day - 1)).toEqual({ decided: 0 });
  expect(await sweep(358 * day)).toEqual({ decided: 1 });
});

test('closes the finding of a revoked token', async () => {
  const id = await token();
  await use(id, 9 * day);
  await sweep(9 * day);
  await revokeToken(stage.db, id, stage.at(9 * day + 30));
  await sweep(9 * day + 60);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: 'the token was revoked' }]);
});

test('closes the finding of a token no longer in use', async () => {
  const id = await token({ expires: 100 * day });
  await use(id, 90 * day);
  await sweep(93 * day);
  expect(await findings()).toMatchObject([{ status: 'open' }]);
  await sweep(97 * day);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: 'the token was not used for 7 days' }]);
});

test('only a used token of the same name, role and scope that lives longer replaces it', async () => {
  const id = await token();
  await use(id, 9 * day);
  const others = [
    await token({ name: 'another' }),
    await token({ role: 'viewer', expires: null }),
    await token({ tenant: 'acme', expires: null }),
    await token({ created: 9 * day, expires: 10 * day }),
  ];
  await sweep(9 * day);
  for (const other of others) await use(other, 9 * day);
  await use(await token({ expires: null }), day);
  const next = await token({ created: 9 * day, expires: 30 * day });
  await sweep(9 * day + 60);
  const own = async () => (await findings()).find(({ subject }) => subject === id);
  expect(await own(), 'the next one is not used yet, another not for a week').toMatchObject({ status: 'open' });
  await use(next, 9 * day + 90);
  await sweep(9 * day + 120);
  expect(await own()).toMatchObject({
    status: 'resolved',
    reason: 'another token of the same name, role and scope is in use',
  });
});
