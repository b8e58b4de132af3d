#!/usr/bin/node
/**
 * Asks the server in this container whether it is alive, at the address that the variables name. It
 * serves plain HTTP or TLS, and its certificate does not name this address.
 */
import { get as getHttp } from 'node:http';
import { get as getHttps } from 'node:https';

const host = process.env.SLIPWAY_HOST || '0.0.0.0';
/** A server that listens on all addresses is asked on loopback. */
const loopback = { '0.0.0.0': '127.0.0.1', '::': '::1' };

const options = {
  host: loopback[host] ?? host,
  port: process.env.SLIPWAY_PORT || 7070,
  path: '/healthz',
  rejectUnauthorized: false,
  timeout: 4000,
};

function isAlive(get) {
  const { promise, resolve } = Promise.withResolvers();
  const request = get(options, (response) => {
    response.resume();
    resolve(response.statusCode === 200);
  });
  request.on('timeout', () => request.destroy());
  request.on('error', () => resolve(false));
  return promise;
}

process.exit((await isAlive(getHttp)) || (await isAlive(getHttps)) ? 0 : 1);
