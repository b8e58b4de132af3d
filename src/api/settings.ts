/**
 * Derives the API's settings from those of the server. Removes secrets from the settings that the
 * API shows.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { keptBundlesDir } from '../base/files/agent-bundle.ts';
import { withoutPassword } from '../base/network/database-url.ts';
import { trustedProxies } from '../base/network/trusted-proxies.ts';
import { isLoopback } from '../base/settings/flag-values.ts';
import type { ServerSettings } from '../base/settings/settings.ts';
import type { OperatorsMay } from '../contract/pool-fields/privileged.ts';
import type { ApiSettings } from './services.ts';

/** The paths of the built files. */
export interface BuiltFiles {
  console_dir: string;
  agent_bundle: string;
}

export function apiSettings(
  settings: ServerSettings,
  version: string,
  { console_dir, agent_bundle }: BuiltFiles,
  operators_may: OperatorsMay = {},
): ApiSettings {
  const loopback = isLoopback(settings.host);
  const { admin_token: _token, otlp_headers: _headers, sources, ...shownSettings } = settings;
  const allow_host_bound_pools = loopback || settings.allow_local_driver;
  return {
    version,
    loopback_only: loopback && !settings.behind_proxy,
    proxies: trustedProxies(settings.trusted_proxies),
    allow_host_bound_pools,
    operators_may,
    secure_cookies: settings.tls_cert !== null || settings.behind_proxy,
    session_idle_seconds: settings.session_idle_seconds,
    session_max_seconds: settings.session_max_seconds,
    console_dir: existsSync(join(console_dir, 'index.html')) ? console_dir : null,
    agent_bundle: { path: agent_bundle, kept_dir: keptBundlesDir(resolve(settings.data_dir)) },
    started_with: {
      ...shownSettings,
      allow_local_driver: allow_host_bound_pools,
      database_url: settings.database_url && withoutPassword(settings.database_url),
      owner_database_url: settings.owner_database_url && withoutPassword(settings.owner_database_url),
    },
    sources: {
      ...sources,
      ...(loopback && !settings.allow_local_driver && { allow_local_driver: 'the server listens on this host only' }),
    },
  };
}
