/** Reads, creates and deletes role assignments, which cannot have tags. */
import type { RoleAssignment } from '@azure/arm-authorization';
import type { Grant } from '../role-id.ts';
import type { AksRole } from '../spec.ts';
import { type AzureAccount, azureSdks, clientOptions } from './azure-account.ts';
import { isMissing } from './azure-error.ts';

export interface Assignment extends Grant {
  name: string;
}

export interface AssignmentRequest extends Grant {
  principal_type: AksRole['principal_type'];
  /** Azure shows it to people; it says what the assignment is for. */
  description: string;
}

export interface AzureRoles {
  /** Returns null if the assignment does not exist. */
  get(scope: string, name: string): Promise<Assignment | null>;
  create(name: string, request: AssignmentRequest): Promise<void>;
  /** Does nothing if the assignment does not exist. */
  remove(scope: string, name: string): Promise<void>;
  /** Lists the assignments on exactly this scope, without inherited ones. */
  listAt(scope: string): Promise<Assignment[]>;
}

const assignmentOf = (wire: RoleAssignment): Assignment => ({
  name: wire.name ?? '',
  scope: wire.scope ?? '',
  role_definition_id: wire.roleDefinitionId ?? '',
  principal_id: wire.principalId ?? '',
});

/** Removes the leading slash, because the SDK adds one. */
const sdkScope = (scope: string) => scope.replace(/^\//, '');

const nullIfMissing = async <T>(answer: Promise<T>): Promise<T | null> => {
  try {
    return await answer;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
};

export async function openRoles(subscription_id: string, account: AzureAccount): Promise<AzureRoles> {
  const { AuthorizationManagementClient } = await azureSdks();
  const { roleAssignments } = new AuthorizationManagementClient(
    account.credential,
    subscription_id,
    clientOptions(account),
  );
  return {
    async get(scope, name) {
      const assignment = await nullIfMissing(roleAssignments.get(sdkScope(scope), name));
      return assignment && assignmentOf(assignment);
    },
    async create(name, { scope, role_definition_id, principal_id, principal_type, description }) {
      await roleAssignments.create(sdkScope(scope), name, {
        roleDefinitionId: role_definition_id,
        principalId: principal_id,
        ...(principal_type && { principalType: principal_type }),
        description,
      });
    },
    async remove(scope, name) {
      await nullIfMissing(roleAssignments.delete(sdkScope(scope), name));
    },
    async listAt(scope) {
      const listAll = async () => {
        const all: Assignment[] = [];
        const pages = roleAssignments.listForScope(sdkScope(scope), { filter: 'atScope()' });
        for await (const wire of pages) all.push(assignmentOf(wire));
        return all;
      };
      const assignments = (await nullIfMissing(listAll())) ?? [];
      return assignments.filter((assignment) => assignment.scope.toLowerCase() === scope.toLowerCase());
    },
  };
}
