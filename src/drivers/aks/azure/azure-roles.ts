/** Reads, creates and deletes role assignments, which cannot have tags. */
import type { RoleAssignment } from '@azure/arm-authorization';
import type { Grant } from '../role-id.ts';
import type { AksRole } from '../spec.ts';
import { type AzureAccount, azureSdks, clientOptions } from './azure-account.ts';
import { isMissing } from './azure-error.ts';

export interface Assignment extends Grant {
  name: string;
}

export interface WantedAssignment extends Grant {
  principal_type: AksRole['principal_type'];
  /** For people who find it. */
  description: string;
}

export interface AzureRoles {
  /** Null if there is none. */
  get(scope: string, name: string): Promise<Assignment | null>;
  create(name: string, wanted: WantedAssignment): Promise<void>;
  /** Does nothing if it is gone. */
  remove(scope: string, name: string): Promise<void>;
  /** Those on exactly this scope. */
  at(scope: string): Promise<Assignment[]>;
}

const assignmentOf = (wire: RoleAssignment): Assignment => ({
  name: wire.name ?? '',
  scope: wire.scope ?? '',
  role_definition_id: wire.roleDefinitionId ?? '',
  principal_id: wire.principalId ?? '',
});

/** The SDK prepends a slash. */
const scopeOf = (scope: string) => scope.replace(/^\//, '');

const orNull = async <T>(answer: Promise<T>): Promise<T | null> => {
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
      const seen = await orNull(roleAssignments.get(scopeOf(scope), name));
      return seen && assignmentOf(seen);
    },
    async create(name, { scope, role_definition_id, principal_id, principal_type, description }) {
      await roleAssignments.create(scopeOf(scope), name, {
        roleDefinitionId: role_definition_id,
        principalId: principal_id,
        ...(principal_type && { principalType: principal_type }),
        description,
      });
    },
    async remove(scope, name) {
      await orNull(roleAssignments.delete(scopeOf(scope), name));
    },
    async at(scope) {
      const listed = async () => {
        const all: Assignment[] = [];
        const pages = roleAssignments.listForScope(scopeOf(scope), { filter: 'atScope()' });
        for await (const wire of pages) all.push(assignmentOf(wire));
        return all;
      };
      const all = (await orNull(listed())) ?? [];
      return all.filter((each) => each.scope.toLowerCase() === scope.toLowerCase());
    },
  };
}
