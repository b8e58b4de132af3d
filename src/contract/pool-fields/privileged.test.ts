/** Tests which changes of a pool need an admin. */
import { expect, test } from 'vitest';
import type { PoolDocument } from '../pool.ts';
import { operatorLists, privilegedFields, refusedFields } from './privileged.ts';

const ec2: PoolDocument = {
  driver: 'ec2',
  max_nodes: 3,
  spec: {
    region: 'eu-central-1',
    image_id: 'ami-0123456789abcdef0',
    instance_type: 't3.small',
    iam_instance_profile: 'worker',
    security_group_ids: ['sg-1', 'sg-2'],
    setup: 'echo hi',
  },
};

const refused = (after: PoolDocument, before?: PoolDocument, may = {}) =>
  refusedFields(before, after, may).map(({ field }) => field);

const withSpec = (change: Record<string, unknown>): PoolDocument => ({ ...ec2, spec: { ...ec2.spec, ...change } });

test('allows unchanged privileged fields, and changes of other fields', () => {
  expect(refused({ ...ec2, max_nodes: 5, budgets: { provision_seconds: 60 } }, ec2)).toEqual([]);
  expect(refused(withSpec({ instance_type: 't3.large', spot: true }), ec2)).toEqual([]);
  expect(refused({ driver: 'external', requires: [], probe: { allow_private: false } })).toEqual([]);
});

test.for([
  ['iam_instance_profile', 'admin'],
  ['image_id', 'ami-ffffffff'],
  ['subnet_id', 'subnet-0123456789abcdef0'],
  ['security_group_ids', ['sg-1']],
  ['key_name', 'mine'],
  ['metadata_tokens', 'optional'],
  ['tags', { team: 'other' }],
  ['prepare', 'curl evil'],
  ['setup', 'curl evil'],
  ['command', ['sh']],
  ['clean', 'curl evil'],
  ['env', { NODE_OPTIONS: '--require /tmp/x' }],
] as const)('a change of %s is privileged', ([field, value]) => {
  expect(refused(withSpec({ [field]: value }), ec2)).toEqual([`spec.${field}`]);
});

test('treats removal of a privileged field as a change', () => {
  const { security_group_ids: _, ...spec } = ec2.spec ?? {};
  expect(refused({ ...ec2, spec }, ec2)).toEqual(['spec.security_group_ids']);
  const checked: PoolDocument = { driver: 'external', requires: [{ name: 'x', check: 'id' }] };
  expect(refused({ driver: 'external', requires: [] }, checked, { requires: ['id'] })).toEqual(['requires']);
});

test('shell checks, probes of private addresses, roles and everything on this host are privileged', () => {
  expect(refused({ driver: 'external', requires: [{ name: 'x', check: 'id' }] })).toEqual(['requires']);
  expect(refused({ driver: 'external', probe: { allow_private: true } })).toEqual(['probe.allow_private']);
  expect(refused({ driver: 'external', compat: { allow_takeover: true } })).toEqual(['compat.allow_takeover']);
  // Once for the role and once for its principal.
  expect(refused({ driver: 'aks', spec: { roles: [{ role_definition_id: 'a', principal_id: 'b' }] } })).toEqual([
    'spec.roles',
    'spec.roles',
  ]);
  expect(refused({ driver: 'docker', spec: { image: 'other' } }, { driver: 'docker', spec: { image: 'one' } })).toEqual(
    ['spec'],
  );
  expect(refused({ driver: 'local', spec: { setup: 'id' } }, { driver: 'local' })).toEqual(['spec']);
  expect(refused({ driver: 'local', spec: {}, max_nodes: 1 }, { driver: 'local' })).toEqual([]);
});

test('allows values that the settings list, if all are listed', () => {
  const may = { iam_instance_profiles: ['batch'], security_group_ids: ['sg-1', 'sg-3'], requires: ['nvidia-smi'] };
  expect(refused(withSpec({ iam_instance_profile: 'batch' }), ec2, may)).toEqual([]);
  expect(refused(withSpec({ iam_instance_profile: 'admin' }), ec2, may)).toEqual(['spec.iam_instance_profile']);
  expect(refused(withSpec({ security_group_ids: ['sg-3', 'sg-1'] }), ec2, may)).toEqual([]);
  expect(refused(withSpec({ security_group_ids: ['sg-3', 'sg-9'] }), ec2, may)).toEqual(['spec.security_group_ids']);
  const requires = [{ name: 'cuda', check: 'nvidia-smi' }];
  expect(refused({ driver: 'external', requires }, undefined, may)).toEqual([]);
  expect(refused(withSpec({ setup: 'anything' }), ec2, { scripts: ['*'] })).toEqual([]);
});

test('allows a role only with its principal and scope', () => {
  const may = { role_definition_ids: ['reader'], role_principal_ids: ['team'], role_scopes: ['/subscriptions/s/ours'] };
  const lists = (role: object, before?: PoolDocument) =>
    refusedFields(before, { driver: 'aks', spec: { roles: [role] } }, may).map(({ allowed_by }) => allowed_by);
  const role = { role_definition_id: 'reader', principal_id: 'team' };
  expect(lists(role)).toEqual([]);
  expect(lists({ ...role, scope: '/subscriptions/s/ours' })).toEqual([]);
  expect(lists({ ...role, role_definition_id: 'owner' })).toEqual(['role_definition_ids']);
  expect(lists({ ...role, principal_id: 'stranger' })).toEqual(['role_principal_ids']);
  expect(lists({ ...role, scope: '/subscriptions/s' })).toEqual(['role_scopes']);
  const set: PoolDocument = { driver: 'aks', spec: { roles: [{ ...role, principal_id: 'set-by-an-admin' }] } };
  expect(lists({ ...role, principal_id: 'set-by-an-admin' }, set)).toEqual([]);
});

test('every list in the settings allows a field', () => {
  expect(new Set(privilegedFields.flatMap(({ allowed_by }) => allowed_by ?? []))).toEqual(new Set(operatorLists));
});
