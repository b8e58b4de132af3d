/**
 * Builds the user-data script, which at a machine's first boot fetches the agent from the control
 * plane and starts it. The image needs only Node and a tool that runs user-data, like cloud-init.
 *
 * Every process on the machine, and everyone who may describe the machine, can read user-data. So
 * its only Slipway secret is the enrolment token. The token is valid for this one instance, and
 * useless after the agent has used its credential.
 */
import { join } from 'node:path/posix';
import { agentIdentity } from '../agent-config.ts';
import type { EnsureTarget } from '../driver.ts';
import { launchEnv } from '../workload-spec.ts';
import { type Ec2Spec, ec2Spec } from './spec.ts';

/** EC2's limit for user-data, before base64. */
export const max_user_data_bytes = 16_384;

const home = '/var/lib/slipway';
const onMachine = {
  config: join(home, 'agent.json'),
  prepare: join(home, 'prepare.sh'),
  dir: join(home, 'node'),
  work: join(home, 'node/work'),
  temporary: join(home, 'node/tmp'),
  exit: join(home, 'node/agent.exit.json'),
  output: join(home, 'agent.out'),
  programs: '/opt/slipway',
  bundle: '/opt/slipway/agent.mjs',
  fetch: '/opt/slipway/fetch-agent.cjs',
  exit_reason: '/opt/slipway/print-exit-reason.cjs',
  unit: '/etc/systemd/system/slipway-agent.service',
} as const;

const maxBundleBytes = 64 * 1024 * 1024;
export const bundlePath = '/v1/agent/bundle';

function agentConfig(target: EnsureTarget, { setup, command, clean, env }: Ec2Spec) {
  return {
    ...agentIdentity(target),
    dir: onMachine.dir,
    work_dir: onMachine.work,
    workload_dirs: [onMachine.temporary, onMachine.work],
    dir_keeps: ['tmp', 'work'],
    setup: setup ?? null,
    command: command ?? null,
    clean: clean ?? null,
    env: launchEnv(env),
    requires: target.bootstrap.requires,
  };
}

/**
 * Returns a here-document that writes the text to a file. The text cannot contain the end mark:
 * JSON has no line breaks, our own programs do not contain it, and the mark of a pool's script
 * holds the instance id, which does not exist yet when the pool is declared.
 */
const hereDocument = (path: string, mark: string, text: string) => `cat > ${path} <<'${mark}'\n${text}\n${mark}`;

/**
 * A program that tries each URL of the control plane once. It rejects a file whose digest is
 * not the one in this script.
 */
const fetchProgram = (digest: string) => `const { createHash } = require('node:crypto');
const { readFileSync, renameSync, writeFileSync } = require('node:fs');
const { rootCertificates } = require('node:tls');
const { server_url, other_server_urls, ca } = JSON.parse(readFileSync('${onMachine.config}', 'utf8'));
const get = (base) => new Promise((resolve, reject) => {
  const url = new URL(base.replace(/\\/+$/, '') + '${bundlePath}?sha256=${digest}');
  const { get: send } = require(url.protocol === 'https:' ? 'node:https' : 'node:http');
  const request = send(url, { timeout: 10000, ...(ca && { ca: [...rootCertificates, ca] }) }, (reply) => {
    const parts = [];
    const isAgent = reply.statusCode === 200 && /javascript/.test(reply.headers['content-type']);
    let bytes = 0;
    reply.on('error', reject).on('data', (part) => {
      if ((bytes += part.length) > ${maxBundleBytes}) request.destroy(new Error('the response is too large'));
      parts.push(part);
    });
    reply.on('end', () => {
      const whole = Buffer.concat(parts);
      if (!isAgent) reject(new Error('the server answered ' + reply.statusCode));
      else if (createHash('sha256').update(whole).digest('hex') !== '${digest}') reject(new Error('the file does not have the announced SHA-256 digest'));
      else resolve(whole);
    });
  });
  request.on('timeout', () => request.destroy(new Error('no answer'))).on('error', reject);
});
(async () => {
  for (const address of [server_url, ...other_server_urls]) {
    try {
      writeFileSync('${onMachine.bundle}.new', await get(address), { mode: 0o644 });
      renameSync('${onMachine.bundle}.new', '${onMachine.bundle}');
      return;
    } catch (error) {
      console.log('cannot fetch the agent from ' + address + ': ' + (error.message || error.code));
    }
  }
  process.exitCode = 1;
})();`;

/** Prints the agent's exit reason on the console, because only that can be read from outside. */
const exitReasonProgram = `const { existsSync, readFileSync } = require('node:fs');
if (existsSync('${onMachine.exit}')) {
  const { code, reason } = JSON.parse(readFileSync('${onMachine.exit}', 'utf8'));
  console.log('slipway: agent ended: ' + code + ': ' + reason);
}`;

/**
 * systemd does not restart the agent after exit codes that a restart would only repeat. The control
 * plane decides whether another instance follows. Only the agent is signalled: its command survives
 * a restart of the agent.
 */
const unit = `[Unit]
Description=Slipway agent
Wants=network-online.target
After=network-online.target
[Service]
WorkingDirectory=${onMachine.dir}
Environment=HOME=${onMachine.work} TMPDIR=${onMachine.temporary}
ExecStart=SLIPWAY_NODE ${onMachine.bundle} --config ${onMachine.config}
ExecStopPost=-/bin/sh -c 'SLIPWAY_NODE ${onMachine.exit_reason} > /dev/console'
KillMode=process
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 3 10 11 12 13 14
[Install]
WantedBy=multi-user.target`;

/** `digest`: the SHA-256 of the agent bundle, in hexadecimal. */
export function userData(target: EnsureTarget, digest: string): string {
  const spec = ec2Spec(target.spec);
  const prepare =
    spec.prepare === undefined
      ? ''
      : `${hereDocument(onMachine.prepare, `SLIPWAY_${target.node_instance_id}`, spec.prepare)}
(umask 022; cd ${home}; sh ${onMachine.prepare} </dev/null) || failed prepare_failed "the pool's prepare exited with code $?"
`;
  return `#!/bin/sh
# Slipway: fetches this machine's agent from the control plane and starts it. Runs once, as root.
umask 077
failed() { echo "slipway: boot failed: $1: $2"; exit 1; }
mkdir -p ${onMachine.work} ${onMachine.temporary} || failed disk_unwritable "cannot write below ${home}"
mkdir -m 755 -p ${onMachine.programs} || failed disk_unwritable "cannot write below ${onMachine.programs}"
${hereDocument(onMachine.config, 'SLIPWAY_CONFIG', JSON.stringify(agentConfig(target, spec)))}
${prepare}PATH="$PATH:/usr/local/bin:/snap/bin"
node=$(command -v node || command -v nodejs) || failed node_missing "there is no Node.js on this machine: use an image with Node.js 20 or newer, or install it in the pool's prepare"
"$node" -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' || failed node_too_old "the agent needs Node.js 20 or newer, but this is $("$node" --version)"
${hereDocument(onMachine.fetch, 'SLIPWAY_FETCH', fetchProgram(digest))}
${hereDocument(onMachine.exit_reason, 'SLIPWAY_EXIT_REASON', exitReasonProgram)}
reported=
until problem=$("$node" ${onMachine.fetch} 2>&1); do
  [ "$problem" = "$reported" ] || echo "slipway: $problem; retrying"
  reported=$problem
  sleep 5
done
echo "slipway: starting the agent"
if [ -d /run/systemd/system ]; then
  sed "s#SLIPWAY_NODE#$node#" > ${onMachine.unit} <<'SLIPWAY_UNIT'
${unit}
SLIPWAY_UNIT
  chmod 644 ${onMachine.unit}
  systemctl daemon-reload && systemctl enable --now slipway-agent.service || failed service_not_started "systemd did not start the agent's service"
else
  cd ${onMachine.dir} || exit 1
  export HOME=${onMachine.work} TMPDIR=${onMachine.temporary}
  ("$node" ${onMachine.bundle} --config ${onMachine.config} </dev/null >> ${onMachine.output} 2>&1; "$node" ${onMachine.exit_reason}) &
fi
`;
}
