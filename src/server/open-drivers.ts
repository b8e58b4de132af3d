/** Creates all drivers. Each gets its settings and the few queries it may run. */
import { homedir, hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { keepBundle, keptBundlesDir } from '../base/files/agent-bundle.ts';
import type { ServerSettings } from '../base/settings/settings.ts';
import type { Log } from '../base/telemetry/log.ts';
import { createAksDriver } from '../drivers/aks/aks-driver.ts';
import { createDockerDriver } from '../drivers/docker/docker-driver.ts';
import type { Driver } from '../drivers/driver.ts';
import { createEc2Driver } from '../drivers/ec2/ec2-driver.ts';
import { createExternalDriver } from '../drivers/external/external-driver.ts';
import { createLocalDriver } from '../drivers/local/local-driver.ts';
import { isRevoked } from '../store/agents/instances.ts';
import type { Queryable } from '../store/pg/database.ts';
import { readSpecValues } from '../store/rows/pools.ts';

interface DriverOptions {
  settings: ServerSettings;
  log: Log;
  data_dir: string;
  db: Queryable;
  clock: Clock;
  installation: { installation_id: string };
  /** The path of the agent's single file, which is copied to machines. */
  agent_bundle: string;
}

const nodesDir = (settings: ServerSettings, data_dir: string, installation_id: string): string => {
  if (settings.nodes_dir) return resolve(settings.nodes_dir);
  return settings.database_url === null ? join(data_dir, 'nodes') : sharedNodesDir(installation_id);
};

/** Replicas of one database on one host adopt each other's local nodes, so they share a folder. */
const sharedNodesDir = (installation_id: string): string =>
  process.getuid?.() === 0
    ? join('/var/lib/slipway/nodes', installation_id)
    : join(homedir(), '.local/state/slipway/nodes', installation_id);

export function openDrivers({
  settings,
  log,
  data_dir,
  db,
  clock,
  installation,
  agent_bundle,
}: DriverOptions): Map<string, Driver> {
  const local = createLocalDriver({
    nodes_dir: nodesDir(settings, data_dir, installation.installation_id),
    agent_command: [process.execPath, agent_bundle],
    host_id: hostname(),
    clock,
    log: (message, facts) => log.info(facts, message),
  });
  const external = createExternalDriver({ isRevoked: (id) => isRevoked(db, id) });
  const docker = createDockerDriver({
    docker_host: settings.docker_host,
    cert_dir: settings.docker_cert_dir,
    auth_file: settings.docker_auth_file,
    allow_host_access: settings.docker_allow_host_access,
    agent_files: { node: process.execPath, bundle: agent_bundle },
    host_id: hostname(),
    clock,
    addressesInUse: () => readSpecValues(db, 'docker', 'docker_host'),
  });
  const aks = createAksDriver({
    endpoint: settings.azure_endpoint,
    allow_roles_anywhere: settings.azure_allow_roles_anywhere,
    environment: process.env,
    clock,
    subscriptionsInUse: () => readSpecValues(db, 'aks', 'subscription_id'),
  });
  const ec2 = createEc2Driver({
    endpoint: settings.ec2_endpoint,
    clock,
    bundleDigest: () => keepBundle({ path: agent_bundle, kept_dir: keptBundlesDir(data_dir) }),
    regionsInUse: async () => (await readSpecValues(db, 'ec2', 'region')).filter((region) => region !== null),
  });
  return new Map<string, Driver>([local, docker, aks, ec2, external].map((driver) => [driver.name, driver]));
}
