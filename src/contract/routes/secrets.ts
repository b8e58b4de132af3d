/** Routes of secrets that pools reference. */

import type { RouteDeclaration } from '../route.ts';
import { admin } from '../security/access.ts';
import * as secret from '../security/secret.ts';

export const secretRoutes = {
  'secret-put': {
    method: 'PUT',
    path: '/v1/secrets/{name}',
    summary: 'Store a secret, or give it a new value; the value is never shown again',
    tag: 'secrets',
    access: admin,
    params: secret.SecretParams,
    body: secret.SecretRequest,
    problems: ['secret_value_unsuitable'],
    success: 200,
    reply: secret.Secret,
  },
  'secret-list': {
    method: 'GET',
    path: '/v1/secrets',
    summary: 'Names and metadata of all secrets, without their values',
    tag: 'secrets',
    access: admin,
    success: 200,
    reply: secret.SecretPage,
  },
  'secret-delete': {
    method: 'DELETE',
    path: '/v1/secrets/{name}',
    summary: 'Delete a secret; refused while a pool references it, unless forced',
    tag: 'secrets',
    access: admin,
    params: secret.SecretParams,
    query: secret.SecretDeletion,
    problems: ['secret_in_use'],
    success: 204,
  },
  'secret-rotate': {
    method: 'POST',
    path: '/v1/secrets/rotate',
    summary: 'Re-encrypt all secrets with the current key of the key file',
    tag: 'secrets',
    access: admin,
    success: 200,
    reply: secret.SecretRotation,
  },
} as const satisfies Record<string, RouteDeclaration>;
