import { Compile } from 'typebox/compile';
import { describe, expect, it } from 'vitest';
import { aksSpecSchema } from './spec.ts';

const defaultSchema = Compile(aksSpecSchema({ allow_roles_anywhere: false }));
const rolesAnywhereSchema = Compile(aksSpecSchema({ allow_roles_anywhere: true }));

const id = '0b1f6471-1bf0-4dda-aec3-111122223333';
const system = { name: 'systempool', mode: 'System', vm_size: 'Standard_D4s_v5', count: 1 };
const user = { name: 'blastpool', mode: 'User', vm_size: 'Standard_D8s_v5', count: 0 };
const spec = { subscription_id: id, location: 'westeurope', pools: [system] };
const role = { role_definition_id: id, principal_id: id };
const path = `/subscriptions/${id}/providers/Microsoft.Authorization/roleDefinitions/${id}`;

it.each([
  spec,
  { ...spec, pools: [system, user], kubernetes_version: '1.33', resource_group: 'rg_(of).somebody-1' },
  { ...spec, roles: [role, { ...role, role_definition_id: path, principal_type: 'Group' }] },
  { ...spec, tags: { 'cost-centre': '4711', team: 'blast' } },
])('accepts %j', (validSpec) => {
  expect([...defaultSchema.Errors(validSpec)]).toEqual([]);
});

it.each([
  {},
  { ...spec, unknown: 1 },
  { ...spec, subscription_id: 'mine' },
  { ...spec, location: 'West Europe' },
  { ...spec, resource_group: 'ends-with-a-dot.' },
  { ...spec, resource_group: 'a/b' },
  { ...spec, kubernetes_version: 'newest' },
  { ...spec, pools: [] },
  { ...spec, pools: [user] },
  { ...spec, pools: [{ ...system, count: 0 }] },
  { ...spec, pools: [system, { ...user, name: system.name }] },
  { ...spec, pools: [{ ...system, name: 'system-pool' }] },
  { ...spec, pools: [{ ...system, name: 'thirteenchars' }] },
  { ...spec, pools: [{ ...system, name: '1pool' }] },
  { ...spec, pools: [{ ...system, vm_size: 'Standard D4' }] },
  { ...spec, pools: [{ ...system, unknown: 1 }] },
  { ...spec, roles: [{ ...role, role_definition_id: 'Owner' }] },
  { ...spec, roles: [{ ...role, principal_id: 'me@example.com' }] },
  { ...spec, tags: { 'io.slipway.node_id': 'x' } },
  { ...spec, tags: { 'a/b': 'x' } },
  { ...spec, tags: { azureThing: 'x' } },
])('refuses %j', (invalidSpec) => {
  expect(defaultSchema.Check(invalidSpec)).toBe(false);
  expect(rolesAnywhereSchema.Check(invalidSpec)).toBe(false);
});

describe("roles on other resources than the pool's clusters", () => {
  it.each([`/subscriptions/${id}`, `/subscriptions/${id}/resourceGroups/shared`])(
    'refuses a role on %s unless the server allows it',
    (scope) => {
      const specWithScope = { ...spec, roles: [{ ...role, scope }] };
      const [error] = defaultSchema.Errors(specWithScope);
      expect(error?.message).toContain('--azure-allow-roles-anywhere');
      expect(rolesAnywhereSchema.Check(specWithScope)).toBe(true);
    },
  );
});
