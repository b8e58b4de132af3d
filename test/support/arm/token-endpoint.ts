/**
 * The fake Entra directory. It serves the discovery endpoints that msal reads, and issues tokens to
 * clients with the right secret.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../../src/base/clock.ts';
import { type ArmAnswer, Refusal } from './refusal.ts';
import type { Route } from './route.ts';

export interface Directory {
  tenant_id: string;
  client_id: string;
  client_secret: string;
}

const token_seconds = 3599;

export interface TokenEndpoint {
  routes: Route[];
  /** Refuses a missing, unknown or expired token. */
  admit(authorization: string | undefined): void;
  /** Invalidates every token issued so far. */
  revokeAll(): void;
}

const oauthError = (error: string, code: number, description: string): ArmAnswer => ({
  status: error === 'invalid_client' ? 401 : 400,
  body: { error, error_description: `AADSTS${code}: ${description}`, error_codes: [code] },
});

export function tokenEndpoint(directory: Directory, clock: Clock, url: () => string): TokenEndpoint {
  const expiresMs = new Map<string, number>();

  const grant = (form: URLSearchParams): ArmAnswer => {
    if (form.get('grant_type') !== 'client_credentials') {
      return oauthError('unsupported_grant_type', 70003, 'The app requested an unsupported grant type.');
    }
    if (form.get('client_id') !== directory.client_id) {
      return oauthError('unauthorized_client', 700016, 'Application was not found in the directory.');
    }
    if (form.get('client_secret') !== directory.client_secret) {
      return oauthError('invalid_client', 7000215, 'Invalid client secret provided.');
    }
    if (!form.get('scope')?.endsWith('/.default')) {
      return oauthError('invalid_scope', 70011, 'The provided value for the input parameter scope is not valid.');
    }
    const access_token = `arm-planted-token-${randomBytes(24).toString('base64url')}`;
    expiresMs.set(access_token, clock.nowMs() + token_seconds * 1000);
    return {
      status: 200,
      body: { token_type: 'Bearer', expires_in: token_seconds, ext_expires_in: token_seconds, access_token },
    };
  };

  const addresses = (tenant: string) => ({
    token_endpoint: `${url()}/${tenant}/oauth2/v2.0/token`,
    authorization_endpoint: `${url()}/${tenant}/oauth2/v2.0/authorize`,
    end_session_endpoint: `${url()}/${tenant}/oauth2/v2.0/logout`,
    jwks_uri: `${url()}/${tenant}/discovery/v2.0/keys`,
    issuer: `${url()}/${tenant}/v2.0`,
  });

  return {
    routes: [
      {
        method: 'GET',
        path: '/common/discovery/instance',
        answer: (_request) => ({
          status: 200,
          body: {
            tenant_discovery_endpoint: `${url()}/${directory.tenant_id}/v2.0/.well-known/openid-configuration`,
            'api-version': '1.1',
            metadata: [],
          },
        }),
      },
      {
        method: 'GET',
        path: '/:tenant/v2.0/.well-known/openid-configuration',
        answer: (_request, { tenant = '' }) => ({ status: 200, body: addresses(tenant) }),
      },
      {
        method: 'POST',
        path: '/:tenant/oauth2/v2.0/token',
        answer: (request, { tenant }) =>
          tenant === directory.tenant_id
            ? grant(new URLSearchParams(request.text))
            : oauthError('invalid_request', 90002, `Tenant '${tenant}' not found.`),
      },
    ],
    admit(authorization) {
      if (!authorization) {
        throw new Refusal(401, 'AuthenticationFailed', "Authentication failed. The 'Authorization' header is missing.");
      }
      const expires_ms = expiresMs.get(authorization.replace(/^Bearer /, ''));
      if (expires_ms === undefined) {
        throw new Refusal(401, 'InvalidAuthenticationToken', 'The access token is invalid.');
      }
      if (expires_ms < clock.nowMs()) {
        throw new Refusal(
          401,
          'ExpiredAuthenticationToken',
          'The access token expiry UTC time is earlier than current UTC time.',
        );
      }
    },
    revokeAll: () => expiresMs.clear(),
  };
}
