// Package compose holds the test of docker-compose.yml, the Dockerfile and the files that they mount. It starts no
// container: it reads them strictly, and holds every name in them against what it names: variables, commands and
// settings against the code, ports against who listens, databases and roles against the script that makes them.
//
// What it can't show is that the images of others do what their documentation says.
package compose
