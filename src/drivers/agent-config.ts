/**
 * Builds the part of an agent's launch configuration that is the same for every driver: the server
 * and the node's identity.
 */
import { isSentInClear } from '../base/network/insecure-http.ts';
import type { EnsureTarget } from './driver.ts';

export function agentIdentity({ bootstrap, ...target }: EnsureTarget) {
  // An operator who sets a plain HTTP address with --public-url allows plain HTTP. Otherwise the
  // agent does not get addresses to which it would send its credential in the clear.
  const allow_insecure_http = isSentInClear(bootstrap.server_url);
  const otherUrls = bootstrap.other_server_urls ?? [];
  return {
    server_url: bootstrap.server_url,
    ca: bootstrap.ca ?? null,
    other_server_urls: allow_insecure_http ? otherUrls : otherUrls.filter((url) => !isSentInClear(url)),
    allow_insecure_http,
    otlp_endpoint: bootstrap.otlp_endpoint ?? null,
    enrollment_token: bootstrap.enrollment_token,
    deadline_at: bootstrap.deadline_at,
    node_id: target.node_id,
    node_instance_id: target.node_instance_id,
    name: target.name,
    correlation_id: target.correlation_id,
    workflow_id: target.workflow_id,
    secret_env: bootstrap.secret_env ?? [],
  };
}
