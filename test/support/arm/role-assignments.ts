/**
 * Role assignments, identified by scope and name. They have no tags and are unique per scope, role
 * and principal.
 */
import type { ArmFaults } from './faults.ts';
import { type ArmAnswer, Refusal } from './refusal.ts';
import { type ArmRequest, jsonOf, type Parameters, type Route } from './route.ts';
import { type Assignment, type FakeSubscription, isWithin, sameName } from './subscription.ts';

interface WireBody {
  properties: { roleDefinitionId: string; principalId: string; principalType?: string };
}

const guid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const wireAssignment = (assignment: Assignment) => ({
  id: assignmentId(assignment),
  name: assignment.name,
  type: 'Microsoft.Authorization/roleAssignments',
  properties: {
    scope: assignment.scope,
    roleDefinitionId: assignment.role_definition_id,
    principalId: assignment.principal_id,
    principalType: assignment.principal_type,
  },
});

export const assignmentId = ({ scope, name }: Assignment) =>
  `${scope}/providers/Microsoft.Authorization/roleAssignments/${name}`;

export function roleAssignmentRoutes(subscription: FakeSubscription, faults: ArmFaults): Route[] {
  const find = (scope: string, name: string) =>
    subscription.assignments.find((each) => sameName(each.scope, scope) && sameName(each.name, name));

  const refuseUnknownScope = (scope: string) => {
    const knownScopes = [
      `/subscriptions/${subscription.subscription_id}`,
      ...subscription.groups
        .filter((group) => subscription.isGroupVisible(group))
        .map(({ name }) => subscription.groupId(name)),
      ...subscription.clusters.map((cluster) => subscription.clusterId(cluster)),
      ...subscription.foreign.map((each) => subscription.foreignId(each)),
    ];
    if (knownScopes.some((each) => sameName(each, scope))) return;
    throw new Refusal(404, 'ResourceNotFound', `The scope '${scope}' was not found.`);
  };

  const put = (request: ArmRequest, { scope = '', name = '' }: Parameters): ArmAnswer => {
    if (faults.role_assignments) throw faults.role_assignments;
    if (!guid.test(name)) {
      throw new Refusal(
        400,
        'InvalidRoleAssignmentId',
        `The role assignment ID '${name}' is not valid. It must be a GUID.`,
      );
    }
    const { properties } = jsonOf<WireBody>(request);
    if (!properties?.roleDefinitionId || !properties.principalId) {
      throw new Refusal(400, 'InvalidCreateRoleAssignmentRequest', 'The request body lacks a role or a principal.');
    }
    refuseUnknownScope(scope);
    const assignment: Assignment = {
      ...{ name, scope, role_definition_id: properties.roleDefinitionId, principal_id: properties.principalId },
      principal_type: properties.principalType ?? 'ServicePrincipal',
    };
    const isSameAssignment = (each: Assignment) =>
      sameName(each.scope, scope) &&
      sameName(each.role_definition_id, assignment.role_definition_id) &&
      sameName(each.principal_id, assignment.principal_id);
    const existing = find(scope, name);
    if (existing && isSameAssignment(existing)) return { status: 200, body: wireAssignment(existing) };
    if (existing) {
      throw new Refusal(
        409,
        'RoleAssignmentUpdateNotPermitted',
        'Tenant ID, application ID, principal ID, and scope are not allowed to be updated.',
      );
    }
    if (subscription.assignments.some(isSameAssignment)) {
      throw new Refusal(409, 'RoleAssignmentExists', 'The role assignment already exists.');
    }
    subscription.assignments.push(assignment);
    return { status: 201, body: wireAssignment(assignment) };
  };

  const get = (_request: ArmRequest, { scope = '', name = '' }: Parameters): ArmAnswer => {
    const assignment = find(scope, name);
    if (assignment) return { status: 200, body: wireAssignment(assignment) };
    throw new Refusal(404, 'RoleAssignmentNotFound', `The role assignment '${name}' is not found.`);
  };

  const erase = (_request: ArmRequest, { scope = '', name = '' }: Parameters): ArmAnswer => {
    const assignment = find(scope, name);
    if (!assignment) return { status: 204 };
    subscription.assignments = subscription.assignments.filter((each) => each !== assignment);
    return { status: 200, body: wireAssignment(assignment) };
  };

  /** Lists assignments at and above the scope, and those below unless the filter is `atScope()`. */
  const list = (request: ArmRequest, { scope = '' }: Parameters): ArmAnswer => {
    const filter = request.query.get('$filter') ?? '';
    const principal = /principalId eq '([^']+)'/i.exec(filter)?.[1];
    const value = subscription.assignments.filter(
      (each) =>
        (isWithin(each.scope, scope) || (!filter.includes('atScope()') && isWithin(scope, each.scope))) &&
        (!principal || sameName(each.principal_id, principal)),
    );
    return { status: 200, body: { value: value.map(wireAssignment) } };
  };

  const allScopes = ':scope*/providers/Microsoft.Authorization/roleAssignments';
  const path = `${allScopes}/:name`;
  return [
    { method: 'PUT', path, answer: put },
    { method: 'GET', path, answer: get },
    { method: 'DELETE', path, answer: erase },
    { method: 'GET', path: allScopes, answer: list },
  ];
}
