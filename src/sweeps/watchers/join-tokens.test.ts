/** A join token in use gets one finding before it expires, until no machine uses it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { newTokenId } from '../../base/ids.ts';
import { createJoinToken } from '../../store/rows/tokens.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { joinTokens } from './join-tokens.ts';

let fixture: RuleFixture;
let warned: object[];
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
  warned = [];
});
afterEach(() => fixture.close());

const day = 86_400;
const runSweep = (seconds: number) =>
  joinTokens({ ...fixture.services, log: { warn: (facts: object) => warned.push(facts) } } as never).run(
    fixture.at(seconds),
  );

/** A token that expires ten days after the start and is used by this many AgentField machines. */
async function addToken(machines: number): Promise<string> {
  const token_id = newTokenId(fixture.clock);
  const row = { token_id, pool: 'p', expires_at: fixture.at(10 * day), max_uses: null, created_at: fixture.start };
  await createJoinToken(fixture.db, row, `swj_${token_id}`);
  if (machines === 0) return token_id;
  const ids = await fixture.addNodes({ pool: 'p', count: machines });
  await fixture.db.query(`update instances set door = 'agentfield', join_token_id = $2 where node_id = any($1)`, [
    ids,
    token_id,
  ]);
  return token_id;
}

const readFindings = () =>
  fixture.db.query(`select subject, status, theirs from findings where what = 'join_token_expiring' order by subject`);

const readReasons = () => fixture.db.query('select subject, reason from findings order by subject');

test("opens one finding and logs one line in the last tenth of the token's life", async () => {
  const token_id = await addToken(3);
  await addToken(0);
  expect(await runSweep(8 * day)).toEqual({ decided: 0 });
  expect(await readFindings()).toEqual([]);

  expect(await runSweep(9 * day)).toEqual({ decided: 1 });
  expect(await readFindings()).toEqual([{ subject: token_id, status: 'open', theirs: { machines: 3 } }]);
  expect(warned).toEqual([expect.objectContaining({ token_id, pool: 'p', machines: 3, seconds_left: day })]);
  const facts = await fixture.db.query(
    `select 1 from evidence where kind = 'finding.opened' and data ->> 'subject' = $1`,
    [token_id],
  );
  expect(facts).toHaveLength(1);

  expect(await runSweep(11 * day), 'the finding stays open after the expiry and is reported once').toEqual({
    decided: 0,
  });
  expect(warned).toHaveLength(1);
  await fixture.db.query('update instances set join_token_id = null');
  await runSweep(11 * day + 60);
  expect(await readFindings()).toEqual([{ subject: token_id, status: 'resolved', theirs: { machines: 3 } }]);
  expect(await readReasons()).toEqual([{ subject: token_id, reason: 'no machine uses the token any more' }]);
});

test('closes the finding of a revoked token with that reason, although machines still have the token', async () => {
  const token_id = await addToken(2);
  await runSweep(9 * day);
  await fixture.db.query('update join_tokens set revoked_at = $1', [fixture.at(9 * day)]);
  await runSweep(9 * day + 60);
  expect(await readReasons()).toEqual([{ subject: token_id, reason: 'the token was revoked' }]);
});
