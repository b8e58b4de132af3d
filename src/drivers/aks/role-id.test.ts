import { expect, it } from 'vitest';
import { isSameGrant, roleAssignmentId } from './role-id.ts';

const role = 'b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b';
const grant = {
  scope: '/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c',
  role_definition_id: `/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/${role}`,
  principal_id: '11111111-2222-3333-4444-555555555555',
};
const asAzureReturnsIt = {
  scope: grant.scope.replace('resourceGroups', 'resourcegroups'),
  role_definition_id: role.toUpperCase(),
  principal_id: grant.principal_id,
};

it('the name is a version 5 UUID that does not depend on case or on the path of the role', () => {
  const id = roleAssignmentId(grant, 'inst_1');
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(roleAssignmentId(asAzureReturnsIt, 'inst_1')).toBe(id);
  expect(isSameGrant(grant, asAzureReturnsIt)).toBe(true);
});

it.each([
  ['another instance', grant, 'inst_2'],
  ['another scope', { ...grant, scope: '/subscriptions/s' }, 'inst_1'],
  ['another role', { ...grant, role_definition_id: grant.principal_id }, 'inst_1'],
  ['another principal', { ...grant, principal_id: role }, 'inst_1'],
])('the name differs for %s', (_, otherGrant, instance) => {
  expect(roleAssignmentId(otherGrant, instance)).not.toBe(roleAssignmentId(grant, 'inst_1'));
});
