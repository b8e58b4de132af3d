/** Tests registration at every node status, with each kind of token. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { hashSecret } from '../../base/credentials/random-secret.ts';
import { newCorrelationId, newTokenId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type NodeStatus, nodeStatusNames } from '../../lifecycle/model/states.ts';
import { type Installation, openInstallation } from '../keys/installation.ts';
import type { Database } from '../pg/database.ts';
import { type NodeRow, nodeRow } from '../rows/nodes.ts';
import { createJoinToken, revokeJoinToken } from '../rows/tokens.ts';
import { type Fleet, readAllocationRow, readNodeRow, testFleet } from '../testing/fleet.ts';
import { fenceInstance, instanceByCredential } from './instances.ts';
import { register } from './register.ts';
import type { Registration } from './registration-types.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let installation: Installation;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  installation = await openInstallation(db, fleet.now());
});

afterAll(() => store.close());

type Request = Parameters<typeof register>[1];

async function attempt(
  request: Partial<Request>,
  credential?: string,
  now = fleet.now(),
): Promise<Registration | string> {
  const caller = credential === undefined ? undefined : await instanceByCredential(db, credential, now);
  const context = {
    clock: fleet.clock,
    now,
    environment: fleet.environment,
    installation,
    correlation_id: newCorrelationId(),
  };
  return register(db, { version: '1.0', ...request }, caller, context).catch((error: unknown) => {
    if (error instanceof ApiProblem) return error.code;
    throw error;
  });
}

async function mustRegister(request: Partial<Request>, credential?: string, now?: Date): Promise<Registration> {
  const reply = await attempt(request, credential, now);
  if (typeof reply === 'string') throw new Error(`the registration was refused: ${reply}`);
  return reply;
}

/** Creates a node at a status, with an enrolment token. */
async function nodeWithToken(status: NodeStatus): Promise<{ node: NodeRow; token: string }> {
  const node = await fleet.node(status);
  const token = installation.signEnrollmentToken({
    pool: node.pool,
    node_id: node.node_id,
    node_instance_id: node.node_instance_id ?? ('' as never),
  });
  await db.query('update instances set enrollment_token_hash = $2 where node_instance_id = $1', [
    node.node_instance_id,
    hashSecret(token),
  ]);
  return { node, token };
}

const newJoinToken = async (limits: { expires_at?: Date; max_uses?: number } = {}) => {
  const token_id = newTokenId(fleet.clock);
  const secret = `swj_${token_id}`;
  const token = { token_id, pool: 'test', expires_at: limits.expires_at ?? null, max_uses: limits.max_uses ?? null };
  await createJoinToken(db, { ...token, created_at: fleet.now() }, secret);
  return { token_id, secret };
};

/** The status of a node after an enrolment, or the error code of the refusal. */
const enrolmentOutcomes: Record<NodeStatus, NodeStatus | 'instance_fenced' | 'node_fenced'> = {
  provisioning: 'starting',
  starting: 'starting',
  ready: 'ready',
  degraded: 'degraded',
  offline: 'offline',
  failed: 'starting',
  draining: 'draining',
  cleaning: 'instance_fenced',
  quarantined: 'node_fenced',
  retired: 'instance_fenced',
};

test.for(nodeStatusNames)('enrols the agent of a %s node, or records the refusal', async (status) => {
  const { node, token } = await nodeWithToken(status);
  const reply = await attempt({ enrollment_token: token });
  const expected = enrolmentOutcomes[status];
  const after = await readNodeRow(db, node.node_id);
  if (typeof reply === 'string') {
    expect(reply).toBe(expected);
    expect(after).toEqual(node);
    const [refusal] = await db.query<{ data: { code: string } }>(
      `select data
       from evidence
       where node_id = $1
         and kind = 'registration.refused'`,
      [node.node_id],
    );
    expect(refusal?.data.code).toBe(reply);
  } else {
    expect(after.status).toBe(expected);
    expect(reply).toMatchObject({ node_id: node.node_id, node_instance_id: node.node_instance_id, first: true });
    expect(reply.credential).toBeTruthy();
    expect(reply.deadline_at).toEqual(after.deadline_at);
    if (expected === status) expect(after.status_since).toEqual(node.status_since);
  }
});

test('refuses a registration after the rescue window', async () => {
  const { node, token } = await nodeWithToken('failed');
  const late = secondsLater(node.deadline_at ?? node.status_since, 1);
  expect(await attempt({ enrollment_token: token }, undefined, late)).toBe('instance_fenced');
  expect(await readNodeRow(db, node.node_id)).toEqual(node);
});

test('checks the prerequisites again when a machine that missed one registers again', async () => {
  const { node, token } = await nodeWithToken('failed');
  await db.query(`update nodes set prerequisites = 'missing' where node_id = $1`, [node.node_id]);
  await mustRegister({ enrollment_token: token });
  expect(await readNodeRow(db, node.node_id)).toMatchObject({ status: 'starting', prerequisites: 'unchecked' });
});

test('rescues the allocation that failed with its node when the machine registers late', async () => {
  const { node, token } = await nodeWithToken('provisioning');
  const held = await fleet.allocation('provisioning', node);
  await fleet.move({ node_id: node.node_id, to: 'failed', by: 'provision-deadline', reason: 'never registered' });
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('failed');
  await mustRegister({ enrollment_token: token });
  expect(await readNodeRow(db, node.node_id)).toMatchObject({
    status: 'starting',
    verdict: { rule: 'late-registration' },
  });
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('provisioning');
});

test('does not rescue an allocation by a join token without a key proof', async () => {
  const { node } = await nodeWithToken('ready');
  const held = await fleet.allocation('active', node);
  await fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  await fleet.move({ node_id: node.node_id, to: 'failed', by: 'offline-deadline', reason: 'gone for long' });
  const { secret } = await newJoinToken();
  expect(await attempt({ join_token: secret, name: node.name })).toBe('identity_unproven');
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('failed');
});

test('counts a restart and keeps the status, registered_at and the deadline', async () => {
  const { node, token } = await nodeWithToken('provisioning');
  const { credential } = await mustRegister({ enrollment_token: token });
  const before = await readNodeRow(db, node.node_id);
  const reply = await mustRegister({ version: '1.1' }, credential);
  expect(reply).toMatchObject({ first: false, node_id: node.node_id });
  expect(reply.credential).toBeUndefined();
  expect(await readNodeRow(db, node.node_id)).toEqual({ ...before, restarts: 1 });
  const facts = await db.query(`select 1 from evidence where node_id = $1 and kind = 'node.restarted'`, [node.node_id]);
  expect(facts.length).toBe(1);
});

test('registers an agent again if it restarts while its node is cleaned', async () => {
  const { node, token } = await nodeWithToken('provisioning');
  const { credential } = await mustRegister({ enrollment_token: token });
  await fleet.move({ node_id: node.node_id, to: 'cleaning', by: 'release', reason: 'released' });
  await mustRegister({ version: '1.1' }, credential);
  expect(await readNodeRow(db, node.node_id)).toMatchObject({ status: 'cleaning', restarts: 1 });
});

test('accepts an enrolment token again until its credential is used', async () => {
  const { token } = await nodeWithToken('provisioning');
  const first = await mustRegister({ enrollment_token: token });
  const second = await mustRegister({ enrollment_token: token });
  expect(second.credential).not.toBe(first.credential);
  expect(await instanceByCredential(db, first.credential ?? '', fleet.now())).toBeUndefined();
  expect(await instanceByCredential(db, second.credential ?? '', fleet.now())).toBeDefined();
  expect(await attempt({ enrollment_token: token })).toBe('enrollment_invalid');
});

test('refuses forged, early, fenced and missing tokens with different codes', async () => {
  const { node, token } = await nodeWithToken('provisioning');
  expect(await attempt({ enrollment_token: `${token}x` })).toBe('enrollment_invalid');
  const earlyToken = installation.signEnrollmentToken({
    pool: 'test',
    node_id: 'node_unknown' as never,
    node_instance_id: 'inst_unknown' as never,
  });
  expect(await attempt({ enrollment_token: earlyToken })).toBe('enrollment_pending');
  await db.transaction((tx) =>
    fenceInstance(tx, node.node_instance_id ?? ('' as never), { reason: 'replaced', revoke: false }, fleet.now()),
  );
  expect(await attempt({ enrollment_token: token })).toBe('instance_fenced');
  expect(await attempt({})).toBe('token_missing');
});

/** The outcome of a join without a key proof under the name of a node. */
const joinOutcomes: Record<NodeStatus, 'new node' | 'name_taken' | 'identity_unproven'> = {
  provisioning: 'identity_unproven',
  starting: 'name_taken',
  ready: 'name_taken',
  degraded: 'name_taken',
  offline: 'identity_unproven',
  failed: 'identity_unproven',
  draining: 'name_taken',
  cleaning: 'name_taken',
  quarantined: 'name_taken',
  retired: 'new node',
};

test.for(nodeStatusNames)(
  'refuses a join without proof under the name of a %s node, unless it is retired',
  async (status) => {
    const node = await fleet.node(status);
    const { secret } = await newJoinToken();
    const reply = await attempt({ join_token: secret, name: node.name });
    const expected = joinOutcomes[status];
    expect(await readNodeRow(db, node.node_id)).toEqual(node);
    if (expected !== 'new node') {
      expect(reply).toBe(expected);
      const [finding] = await db.query<{ theirs: object }>(
        `select theirs
         from findings
         where what = 'name_contested'
           and subject = $1
           and status = 'open'`,
        [node.node_id],
      );
      const because = expected === 'name_taken' ? 'name_held' : 'key_unproven';
      expect(finding?.theirs).toMatchObject({ because, protocol: 'agent' });
      return;
    }
    if (typeof reply === 'string') throw new Error(`the registration was refused: ${reply}`);
    expect(reply.node_id).not.toBe(node.node_id);
    expect((await nodeRow(db, reply.node_id))?.status).toBe('starting');
  },
);

const newName = () => `joined-${newTokenId(fleet.clock).slice(-8)}`;

test('refuses a spent, expired or revoked join token, for new and known names', async () => {
  const { secret } = await newJoinToken({ max_uses: 1 });
  const name = newName();
  const { node_id } = await mustRegister({ join_token: secret, name });
  expect(await attempt({ join_token: secret, name: `${name}-2` })).toBe('join_token_spent');
  await fleet.move({ node_id, to: 'ready', by: 'claim-ready', reason: 'up' });
  await fleet.move({ node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  expect(await attempt({ join_token: secret, name })).toBe('join_token_spent');

  const expired = await newJoinToken({ expires_at: fleet.now() });
  const revoked = await newJoinToken();
  await revokeJoinToken(db, 'test', revoked.token_id, fleet.now());
  for (const joinName of [name, `${name}-3`]) {
    expect(await attempt({ join_token: expired.secret, name: joinName })).toBe('join_token_expired');
    expect(await attempt({ join_token: revoked.secret, name: joinName })).toBe('join_token_invalid');
  }
  expect(await attempt({ join_token: 'swj_unknown', name: `${name}-5` })).toBe('join_token_invalid');
  expect(await attempt({ join_token: secret })).toBe('invalid_request');
});

test('creates only one node if several machines join under one name at once', async () => {
  const { secret } = await newJoinToken();
  const replies = await Promise.all(Array.from({ length: 5 }, () => attempt({ join_token: secret, name: 'twins' })));
  expect(replies.filter((reply) => typeof reply === 'object').length).toBe(1);
  expect(new Set(replies.filter((reply) => typeof reply === 'string'))).toEqual(new Set(['name_taken']));
  const rows = await db.query(`select 1 from nodes where name = 'twins'`);
  expect(rows.length).toBe(1);
});

test('refuses machines of a rack once the token has no uses left', async () => {
  const { secret } = await newJoinToken({ max_uses: 2 });
  const replies = await Promise.all(
    Array.from({ length: 6 }, (_, place) => attempt({ join_token: secret, name: `rack-${place}` })),
  );
  expect(replies.filter((reply) => reply === 'join_token_spent').length).toBe(4);
  expect(await db.query(`select 1 from nodes where name like 'rack-%'`)).toHaveLength(2);
});
